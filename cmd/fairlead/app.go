package main

import (
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/fairlead/fairlead/internal/control"
)

// app is what every verb stands on: the streams, the environment and the way
// to the daemon.
type app struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	now      func() time.Time
	places   places
	// socket is the daemon's, after flags and environment have spoken.
	socket string
}

func newApp(in io.Reader, out, err io.Writer, getenv func(string) string) *app {
	p := findPlaces(os.Geteuid(), getenv)
	return &app{in: in, out: out, err: err, getenv: getenv, now: time.Now, places: p, socket: p.Socket}
}

// client returns a client for the daemon; nothing is connected yet.
func (a *app) client() *control.Client { return control.NewClient(a.socket) }

// terminal says whether a person watches w.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colour says whether w may be coloured: a terminal, and no NO_COLOR.
func (a *app) colour(w io.Writer) bool {
	return a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb" && terminal(w)
}
