// Package validate makes of what manifests say what an API server would have
// let through.
//
// kube-proxy reads objects that were defaulted and validated; svcc reads files
// that never met an API server. Defaults fills in what the server would have;
// Check refuses what it would have refused, at the field's own place, brings
// addresses into their canonical text, and looks across objects for what
// nobody else checks: one address claimed twice, node ports that clash, ports
// that do not meet. Call them in this order; after both, every name, address
// and port that a later stage reads of a Service that is not faulty is fit for
// a rule.
//
// What a chart or plain manifest lacks is a warning (the API server or a
// controller would have supplied it); what could never have been stored is an
// error. An error in an EndpointSlice makes the Service that it belongs to
// faulty, so that no Service is compiled from half of its endpoints. Headless
// and ExternalName Services, and those of another proxy, are no part of the
// rules: little is asked of them and nothing of their slices.
//
// When reviewing a change here, look for: a field that a later stage puts into
// a rule and that is not checked; a result that depends on the order of
// objects or of a map; a call of At where there is nothing to report (it
// parses the document again); and a warning about something that is normal in
// a healthy cluster.
package validate
