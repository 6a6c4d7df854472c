// Command svcc compiles Kubernetes Services to rules of the Linux kernel. All
// of it is in package cli, which tests call in their own process.
//
// When reviewing a change here, look for: anything at all beyond this call.
package main

import (
	"os"

	"svcc/cmd/svcc/cli"
)

func main() { os.Exit(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
