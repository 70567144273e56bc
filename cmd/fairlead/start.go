package main

import (
	"time"

	"github.com/fairlead/fairlead/internal/lategc"
)

// collectAfter is how long a command runs without a garbage collector. Most are
// done by then; the daemon goes on with one.
const collectAfter = 100 * time.Millisecond

func init() { time.AfterFunc(collectAfter, lategc.Resume) }
