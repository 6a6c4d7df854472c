package diag

// 2: one object's fields. 3: across objects.
const (
	ClaimedTwice Code = "SVCC3001"
)

var objects = map[Code]Info{
	ClaimedTwice: {Error, "one destination, two services", "Two service ports claim the same address, port and protocol, or the same node port. kube-proxy picks one at random; svcc refuses. With --keep-going the service whose name sorts first keeps it.", false},
}
