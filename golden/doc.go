// Package golden holds the cases that say what svcc means, one behaviour a
// file, and judges them.
//
// A case is an archive in cases/. Its comment's first line names the behaviour
// as a sentence, the file's name is that sentence with hyphens and without a
// first article, and further lines of the comment may say why. Its sections:
//
//	flags        flags of svcc build
//	*.yaml, ...  the input, one or more files
//	trace        packets and what becomes of each, written by hand
//	diagnostics  what the build says about the input; none, if left out
//	ir           Program and Graph, if the section is there
//	iptables     the text emitted at -O 0, if the section is there
//	iptables-O1  and at -O 1
//
// Trace lines are the specification, so nothing ever rewrites them. Each is
// judged by what Program and Graph mean, by a walk through the emitted text,
// and by real packets through the kernel, with both kinds of iptables. The last
// four sections are written by "go test ./golden -run Golden -update", and
// the difference is for people to read.
//
// A trace line reads
//
//	FROM -> DST[/PROTO] [ATTR...] = RESULT
//
// where FROM is "pod", "node" or "outside", each with a source address if it
// matters; DST is IP:PORT or [IP6]:PORT, TCP unless /udp or /sctp follows.
// The attributes are
//
//	state=invalid|established|related  new if left out
//	mark=0x4000                        the packet's mark on arrival
//	via=IFNAME                         the interface by which it arrives
//	forward-policy=drop                the FORWARD chain's policy is DROP
//	local=IP[,IP]                      addresses that the node bears as well
//
// and RESULT is "pass", "pass masq" (no endpoint is chosen), "drop", "reject",
// or a list of alternatives, "[SHARE ]IP:PORT[ masq]" each, separated by
// commas and equally likely unless shares are given; "sticky N" at its end
// says that the client keeps its endpoint for N seconds. Without it the
// endpoint must not be kept.
//
// What the machine's kernel lacks, IPVS above all, is tested in User Mode Linux:
// see package uml. The laboratory of package lab works there too.
//
// When reviewing a change here, look for: a trace line made to agree with what
// svcc does rather than with what kube-proxy promises, and a case that passes
// whatever the result (an expectation that nothing reads).
package golden
