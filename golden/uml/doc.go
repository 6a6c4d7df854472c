// Package uml runs Go tests inside User Mode Linux: a Linux kernel that is an
// ordinary process and needs no rights. It has what the machine's own kernel
// may lack, IPVS and dummy devices, and whatever happens in it ends with it.
//
// A package with such tests has
//
//	func TestMain(m *testing.M) { uml.Main(m) }
//
//	func TestIPVS(t *testing.T) {
//		uml.Test(t, func(t *testing.T) { ... })
//	}
//
// On the machine, Test boots a kernel whose root is the machine's own file
// system and whose init is the test binary; there Main mounts what a system
// needs, loads the modules and runs the same test once more, in a process of
// its own as init must not end. Its subtests are then reported as subtests of
// the test on the machine, each with its output and its own result. A kernel
// that crashes, or of whose tests nothing is heard for ten minutes, fails the test,
// with the last it said.
//
// Inside, the file system is the machine's, so a test writes only to its
// T.TempDir, which is in memory there. A boot takes 3 seconds, /bin/true
// 40 ms and iptables-restore 60 ms, so put many cases into one test and prefer
// netlink to a tool. No module is loaded later than at the boot, so whatever
// rules need stands in modules. Only iptables-legacy works, and its tools have
// the plain names (iptables, ip6tables-restore, ...); lab.Flavours says so.
//
// The Debian packages user-mode-linux and kmod are needed.
//
// When reviewing a change here, look for: a test that could vanish unseen (a
// result that is not reported, a kernel that ended early), a process that
// outlives its test, and anything that writes to the machine's file system.
package uml
