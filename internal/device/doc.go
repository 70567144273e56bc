// Package device finds the devices of a host, gives each a name that outlives a
// reboot and a replug, says which edits bring it into a container, and follows
// it when it is taken out and put in again. It reads sysfs, /dev and, for NVIDIA,
// /proc; it opens no device and runs no program.
package device
