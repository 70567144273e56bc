// Package plugin is what every driver endpoint shares, whichever
// specification it speaks: the rules of its UNIX socket, the limits and
// required fields of its messages, redaction of secrets, one call in flight
// per object, recovery from panics, logs, metrics and traces.
//
// It knows no service: a specification hands it its tables ([Rules]) and how
// to name the object of a call ([Guard].Key).
package plugin
