package embedded

import (
	"fmt"
	"os"
	"runtime"
)

// PostgreSQL binaries as npm packages: fetched by `npm pack`, so the user's own npm configuration (mirror, proxy,
// credentials) applies and no node_modules appears. The digests pin exactly these tarballs, whoever serves them.

// newestPackage is the major that is run when none is asked for.
const newestPackage = 18

// pkg is one tarball: name, version and the base64 of its SHA-512.
type pkg struct{ name, version, digest string }

var packages = map[int]struct {
	version string
	digests map[string]string // SHA-512 by GOOS/GOARCH
}{
	18: {"18.4.0-beta.17", map[string]string{
		"linux/amd64":  "jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==",
		"linux/arm64":  "TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg==",
		"darwin/arm64": "Kg1ZMNFzkVIJs3g4V2UYEc5X005km9rGinxFBH8R1sOU2Rblvz4pt2Uf93Pu8Rk273Ue9HIdrbMPpgUqwjUi0Q==",
		"darwin/amd64": "4tShSYWMxUQTSWoQAdLnHISvRj6L9gTch9/31ASJPg6wgyN64LDRwMcOINEWybM7N0ropJ3nTYhFT3UX1bKY5Q==",
	}},
	15: {"15.18.0-beta.17", map[string]string{
		"linux/amd64":  "TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA==",
		"linux/arm64":  "ape8eUuz4O2KrO8mySDMEKuHYEppJ71EJ4IanBa1fH6LOui9wifm4+iJnhFkaY+WGBa/Rgw/of+RlFHO2i+bLg==",
		"darwin/arm64": "1hTznqARpTs+IaX3YYltEIJVNwXCuUoHhif+Xiub09SgtzpVhX1LRaJCpzp8kVJV0zxsBBFfv8kkT9TqJdJ32Q==",
		"darwin/amd64": "W4Vd2hDkezdUAniJesLY0MZIfVJtyN7DNg2Q6X0ciwuhGYw/dh8ZDdZLZxSFmVNvpz8Itfj2s2P4MTFPczMMnQ==",
	}},
}

var platforms = map[string]string{
	"linux/amd64": "linux-x64", "linux/arm64": "linux-arm64", "darwin/arm64": "darwin-arm64", "darwin/amd64": "darwin-x64",
}

// packageFor names the pinned tarball of a major (0 means the newest) for this machine.
func packageFor(major int) (pkg, error) {
	if major == 0 {
		major = newestPackage
	}
	p, ok := packages[major]
	if !ok {
		return pkg{}, fmt.Errorf("no package of PostgreSQL %d is known", major)
	}
	here := runtime.GOOS + "/" + runtime.GOARCH
	digest, ok := p.digests[here]
	if !ok {
		return pkg{}, fmt.Errorf("no package of PostgreSQL %d for %s", major, here)
	}
	if musl() {
		return pkg{}, fmt.Errorf("the package of PostgreSQL %d needs glibc, which this system does not have", major)
	}
	return pkg{"@embedded-postgres/" + platforms[here], p.version, digest}, nil
}

func musl() bool {
	_, err := os.Stat("/etc/alpine-release")
	return err == nil
}
