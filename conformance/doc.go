// Package conformance holds svcc against the program whose word counts,
// k8s.io/kubernetes itself. It is a module of its own, so that what that program
// needs is no part of svcc's go.mod; it has tests only.
//
// Input (input_test.go): random changes (mutate_test.go, of the fields and values in
// fields_test.go, in the trees of tree_test.go) of the golden cases' and the example's
// Services, EndpointSlices and Nodes (bases_test.go) are read, defaulted and validated
// twice: by svcc, and by the API server's strict codecs, defaulting and validation
// (apiserver_test.go). Both must take or refuse the same objects and, of what both
// take, understand the same. What only one of them refuses is a row of a table
// with the reason (reasons_test.go).
//
// Output (iptables_test.go, ipvs_test.go): random clusters (clusters_test.go, their
// slices in slices_test.go) are compiled at -O0 (compile_test.go) and given to
// kube-proxy's own proxiers, which write into their fakes (proxiers_test.go). The text
// must be equal, in the order of each chain (rules_test.go); where kube-proxy visits
// service ports in the order of a Go map, in the order of each one's rules. What
// differs on purpose is a row of deviations.md, and deviations_test.go holds each row
// to happening as it says; two things about endpoints that no random cluster meets have
// tests of their own (endpoints_test.go). Of nftables mode svcc has nothing yet: nftables_test.go
// only holds that the proxier runs with its fake, for the day when svcc has.
//
// Each random test runs with a fixed seed and with one of the day (UTC), which it
// prints (seeds_test.go). A failure names its seed; to see it again:
//
//	make conformance ARGS='-run TestInput -seed 20261130'
//
// Nothing here touches the machine: the proxiers get fakes for whatever they would
// ask of the kernel, by reflection where their constructors do not take one.
//
// When reviewing a change here, look for: a row of a table that matches more than
// its reason covers (one that excuses a line of kube-proxy's should ask for svcc's in
// its place), a fake that lets a proxier reach the kernel, a comparison that leaves
// out or sorts what svcc could get wrong, and a random object that can no longer be
// what it was made to try (the tests count). To try a comparison, break svcc beneath it.
package conformance
