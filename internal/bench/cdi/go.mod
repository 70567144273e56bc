module github.com/fairlead/fairlead/internal/bench/cdi

go 1.26.0

require (
	github.com/fairlead/fairlead v0.0.0
	github.com/opencontainers/runtime-spec v1.3.0
	golang.org/x/sys v0.49.0
	tags.cncf.io/container-device-interface v1.1.1
)

require (
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	github.com/rogpeppe/go-internal v1.16.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	tags.cncf.io/container-device-interface/specs-go v1.1.1 // indirect
)

replace github.com/fairlead/fairlead => ../../..
