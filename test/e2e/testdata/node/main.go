// Command node reads from a device in a container: for every line of its input,
// which is ignored, it prints the first line of what $DEVICE_PATH holds.
package main

import (
	"bufio"
	"fmt"
	"os"
)

func main() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(first(os.Getenv("DEVICE_PATH")))
	}
}

func first(path string) string {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "error " + err.Error()
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil {
		return "error " + err.Error()
	}
	return "ok " + line[:len(line)-1]
}
