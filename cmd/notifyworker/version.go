package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

type versionCmd struct{}

func (versionCmd) Run(e *environment) error {
	fmt.Fprintf(e.stdout, "notifyworker %s, %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// release is set when a release is built: -ldflags "-X main.release=v1.2.3".
var release string

// version is the release, else what Go knows of the sources, else "devel".
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	var parts []string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			parts = append(parts, s.Value[:12])
		case s.Key == "vcs.modified" && s.Value == "true":
			parts = append(parts, "modified")
		}
	}
	return strings.Join(append([]string{"devel"}, parts...), "-")
}
