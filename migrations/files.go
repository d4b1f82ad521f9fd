package migrations

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// noTransaction is the first line of a file whose one statement can't run inside a transaction. It must be re-runnable.
const noTransaction = "-- notifyworker: no-transaction\n"

// variantName is what a variant's folder may be called: no pattern and no path.
var variantName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// migration is a numbered file.
type migration struct {
	version int
	name    string
	sql     string
	sum     string
	plain   bool // outside a transaction
}

// definitions are the files of one variant, in the order they are run.
type definitions struct {
	variant string
	files   []definition
	sum     string
}

type definition struct{ name, sql string }

func readMigrations(fsys fs.FS) ([]migration, error) {
	names, err := fs.Glob(fsys, "*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var out []migration
	for i, n := range names {
		text, err := readSQL(fsys, n)
		if err != nil {
			return nil, err
		}
		num, _, _ := strings.Cut(n, "_")
		v, err := strconv.Atoi(num)
		if err != nil || v != i+1 || len(num) != 4 {
			return nil, fmt.Errorf("migration %s: files are called 0001_name.sql, 0002_name.sql, … without gaps", n)
		}
		out = append(out, migration{v, n, text, sum(text), strings.HasPrefix(text, noTransaction)})
	}
	return out, nil
}

// readDefinitions reads *.sql and, for a variant other than the default, the files of its folder after them.
func readDefinitions(fsys fs.FS, variant string) (definitions, error) {
	d := definitions{variant: variant}
	globs := []string{"*.sql"}
	if variant != DefaultVariant {
		if !variantName.MatchString(variant) {
			return definitions{}, fmt.Errorf("variant %q is unknown: there are %s", variant, strings.Join(variants(fsys), " and "))
		}
		globs = append(globs, variant+"/*.sql")
	}
	all := variant + "\n"
	for i, g := range globs {
		names, err := fs.Glob(fsys, g)
		if err != nil {
			return definitions{}, fmt.Errorf("variant %q: %w", variant, err)
		}
		if i > 0 && len(names) == 0 {
			return definitions{}, fmt.Errorf("variant %q is unknown: there are %s", variant, strings.Join(variants(fsys), " and "))
		}
		slices.Sort(names)
		for _, n := range names {
			text, err := readSQL(fsys, n)
			if err != nil {
				return definitions{}, err
			}
			d.files = append(d.files, definition{n, text})
			all += n + "\n" + sum(text) + "\n"
		}
	}
	d.sum = sum(all)
	return d, nil
}

// variants lists the default and each folder that has SQL.
func variants(fsys fs.FS) []string {
	out := []string{DefaultVariant}
	names, err := fs.Glob(fsys, "*/*.sql")
	if err != nil {
		return out
	}
	for _, n := range names {
		if d := path.Dir(n); !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// readSQL makes line ends those of Unix: a checkout with others has the same checksum.
func readSQL(fsys fs.FS, name string) (string, error) {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return "", err
	}
	return string(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))), nil
}

func sum(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}
