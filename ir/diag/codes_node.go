package diag

// 4: the node and the options. 5: what a mode or a level cannot do.
const (
	NodeNeeded Code = "SVCC4001"
)

var nodes = map[Code]Info{
	NodeNeeded: {Error, "the node is not known", "Rules for some services depend on a fact of the node (its name, address, zone or pod ranges) that neither the manifests nor the flags tell.", false},
}
