// Package iptables is the backend for iptables-restore: it lowers a Graph to
// chains of typed rules (package rule) and prints them; and it reads such text back,
// or what iptables-save prints of a node, into what package walk follows packets
// through.
//
// The two halves share the vocabulary of package rule and nothing of what it means, so
// that they cannot be wrong together. The writing half is kube-proxy's layout
// (lower.go, service.go, endpoints.go) and the fast ones (fast.go, which opens with
// their idea, then fastnat.go, fastfilter.go, trie.go and order.go); hooks.go has the
// jumps from built-in chains, and delivery.go the part of nat that IPVS mode needs too.
//
// The reading half starts in parse.go: lines and tables, then a rule's options
// (parse_rule.go), with what each match means to a packet in match.go and each target
// in target.go. What a node has is read with more patience (parse_dump.go), and can be
// asked more (captured.go: who is before our rules; age.go: the words of older
// kube-proxies). furniture.go and order_firewall.go know what kubelet has among our
// chains; owned.go has the names of chains that are ours.
//
// When reviewing a change here, look for: a rule that is read as less than it says
// (what has no model must be an error in a chain of ours, and opaque in anybody
// else's), and patience with what svcc itself wrote.
package iptables
