package compiler

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"svcc/compiler/manifest"
	"svcc/compiler/passes"
	"svcc/compiler/proof"
	"svcc/compiler/resolve"
	"svcc/compiler/validate"
	"svcc/emit"
	"svcc/ir"
	"svcc/ir/diag"
)

// Result is what a compilation gave.
type Result struct {
	// Units are the families' results; nil if an error stood in the way.
	Units       []Unit
	Diagnostics diag.List      // sorted
	Skipped     map[string]int // objects of other kinds that were read, by kind
	Stages      []Stage
	Summary     Summary // of the Services, whether or not Units are nil
	options     Options
	node        string
}

// Unit is one family's result, level by level.
type Unit struct {
	Family   ir.Family
	Program  *ir.Program
	Graph    *ir.Graph
	Sections []emit.Section
	Walker   emit.Walker // of the text; nil without proof
	Probes   int         // how many packets proved it
}

// Observer is called after resolving ("resolve") and after each pass, with what
// there is then; nil for none.
type Observer func(stage string, p *ir.Program, g *ir.Graph) error

// Compile runs the pipeline. What is wrong with the input is in the Result's
// diagnostics, and Units are then nil unless KeepGoing left the faulty Services
// out. An error is a fault of the options or of svcc itself.
func Compile(o Options, observe Observer) (*Result, error) {
	rows, err := passes.Select(passes.Table, o.Level, o.SkipPasses)
	if err != nil {
		return nil, err
	}
	r := &Result{options: o}
	programs := r.frontEnd(o)
	if programs == nil {
		return r, nil
	}
	for _, p := range programs {
		u := Unit{Family: p.Family, Program: p}
		if err := r.backEnd(&u, rows, observe); err != nil {
			return nil, fmt.Errorf("internal error, nothing is written: %s: %w", p.Family, err)
		}
		r.Units = append(r.Units, u)
		r.node = p.Node.Name
	}
	return r, nil
}

// frontEnd reads, checks and resolves the input; nil if it cannot be compiled.
func (r *Result) frontEnd(o Options) []*ir.Program {
	var set *manifest.Set
	var found diag.List
	r.stage("load", func() {
		set, found = load(o)
		r.Skipped = set.Skipped
	})
	var faulty map[string]bool
	var options resolve.Options
	r.stage("validate", func() {
		var list diag.List
		options, list = merge(set, o)
		found = append(found, list...)
		validate.Defaults(set)
		checked := validate.Check(set, validate.Options{
			Families: o.Families, Node: options.Node, NodeIPs: slices.Concat(options.NodeIPs, o.LocalAddrs),
			ServiceCIDRs: o.ServiceCIDRs, Facts: o.Mode.Facts, Strict: o.Strict,
			StrictARP: options.Virtual != nil && options.Virtual.StrictARP, Pods: podRanges(options),
		})
		found = append(found, checked.Diagnostics...)
		faulty = checked.Faulty
	})
	var programs []*ir.Program
	r.stage("resolve", func() {
		var list diag.List
		programs, list = resolve.Resolve(set, faulty, options)
		found = append(found, list...)
	})
	if o.Strict {
		found = found.Strict()
	}
	r.Diagnostics = found.Sort()
	r.Summary = summarize(set, faulty, programs)
	if !compilable(r.Diagnostics, true) {
		r.Summary.compileNone(programs)
	}
	if !compilable(r.Diagnostics, o.KeepGoing) {
		return nil
	}
	return programs
}

// load reads the manifests and the configuration beside them.
func load(o Options) (*manifest.Set, diag.List) {
	set, found := manifest.Load(o.Paths, o.Stdin, manifest.Options{Endpoints: o.Endpoints})
	if len(set.Services) == 0 && len(found.Errors()) == 0 && len(o.Paths) > 0 {
		found.Add(diag.NoService, diag.Pos{}, "", "there is no Service in the input").
			Hint = "see whether the paths are right"
	}
	if o.Config != "" {
		config, list := manifest.LoadConfig(o.Config, o.Stdin)
		set.ProxyConfigs = append(config.ProxyConfigs, set.ProxyConfigs...)
		found = append(found, list...)
	}
	return set, found
}

// podRanges are the pods' ranges where pods are known by one.
func podRanges(o resolve.Options) []netip.Prefix {
	if o.Detect != "" && o.Detect != resolve.DetectClusterCIDR {
		return nil
	}
	return o.ClusterCIDRs
}

// compilable says whether errors leave something to compile: only those of
// single objects do, whose Services are left out.
func compilable(list diag.List, keepGoing bool) bool {
	for _, d := range list.Errors() {
		if !keepGoing || !ofOneObject(d) {
			return false
		}
	}
	return true
}

// ofOneObject says that an error is of one object, and that its Service is faulty for
// it: what validating finds, and of reading what leaves a Service or EndpointSlice
// with its name.
func ofOneObject(d diag.Diagnostic) bool {
	switch d.Code {
	case diag.DuplicateKey, diag.WrongType, diag.DefinedTwice:
		kind, _, named := strings.Cut(d.Object, " ")
		return named && (kind == "Service" || kind == "EndpointSlice")
	}
	stage := d.Code.Stage()
	return stage == diag.StageObject || stage == diag.StageAcross
}

// backEnd optimizes, emits and proves one family.
func (r *Result) backEnd(u *Unit, rows []passes.Pass, observe Observer) error {
	var err error
	r.stage("optimize", func() {
		if observe != nil {
			err = observe("resolve", u.Program, nil)
		}
		if err == nil {
			u.Graph, err = passes.Run(rows, u.Program, observe)
		}
		if err == nil {
			err = u.Graph.Check()
		}
	})
	if err != nil {
		return err
	}
	r.stage("emit", func() {
		u.Sections, err = r.options.Mode.Backend.Emit(u.Graph, emit.Options{Level: r.options.Level, Hooks: r.options.Hooks})
	})
	if err != nil || r.options.NoProof {
		return err
	}
	r.stage("proof", func() { err = r.prove(u) })
	return err
}

// prove parses the text back. The jumps from the built-in chains are part of
// what is proved, whether or not they are part of what is given out.
func (r *Result) prove(u *Unit) error {
	var err error
	if u.Walker, err = r.options.Mode.Backend.Parse(u.Family, u.Sections, r.options.Hooks); err != nil {
		return err
	}
	u.Probes, err = proof.Prove(u.Program, u.Walker)
	return err
}

// Programs are the families' Programs.
func (r *Result) Programs() (out []*ir.Program) {
	for _, u := range r.Units {
		out = append(out, u.Program)
	}
	return out
}

// Ruleset is the file that the result makes.
func (r *Result) Ruleset(bare bool) (*emit.Ruleset, error) {
	rs := &emit.Ruleset{Head: emit.Head{Mode: r.options.Mode.Name, Node: r.node, Level: r.options.Level, Hooks: r.options.Hooks}}
	for _, u := range r.Units {
		rs.Head.Families = append(rs.Head.Families, u.Family)
		rs.Sections = append(rs.Sections, u.Sections...)
		if bare {
			continue
		}
		var b bytes.Buffer
		if err := u.Program.Print(&b, false); err != nil {
			return nil, err
		}
		rs.Programs = append(rs.Programs, b.String())
	}
	return rs, nil
}
