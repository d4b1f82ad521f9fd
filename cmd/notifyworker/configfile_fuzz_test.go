package main

import (
	"errors"
	"strings"
	"testing"
)

// FuzzConfigFile: whatever is in a file, it is read or refused with words, and every value that is read belongs to a setting.
func FuzzConfigFile(f *testing.F) {
	for _, s := range []string{
		"", "slots: 3\n", "engine:\n  chunk: 5\n", "types:\n  a: {url: http://x, timeout: 3s}\n", "types: &t {x: *t}\n", "a: &a [*a, *a]\n",
		"---\n---\n", "slots: !!binary aGk=\n", "? {a: b}\n: c\n", "slots: |\n  3\n", "\"sl\\u006fts\": 3\n", "\ufeffslots: 3\n", "slots: 3\nslots: 3\n", "{", "\t", "- a",
	} {
		f.Add([]byte(s))
	}
	known := map[string]bool{}
	for _, keys := range []map[string]string{fileKeys, engineKeys} {
		for k := range keys {
			known[k] = true
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := fileConfig{values: map[string]string{}, types: map[string]typeFlags{}}
		if err := c.parse(data); err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Errorf("%q is refused without a word", data)
			}
			return
		}
		for k := range c.values {
			if !known[k] {
				t.Errorf("%q has set %q", data, k)
			}
		}
		for name := range c.types {
			for k := range c.types[name].values {
				if !strings.Contains(" "+strings.Join(typeKeys, " ")+" ", " "+k+" ") {
					t.Errorf("%q has set %q of type %q", data, k, name)
				}
			}
		}
	})
}

// FuzzProducts: a product of the command line is refused, or is an id that arrives as it was.
func FuzzProducts(f *testing.F) {
	for _, s := range []string{"", "p1", "\x00", "\xff", "é", "e\u0301", "\ud7ff\uffff", strings.Repeat("x", 10_000), "\u2028\"\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		c := enqueueCmd{ProductsFile: "-"}
		ids, err := c.products(strings.NewReader(id + "\n"))
		var usage usageError
		switch {
		case err != nil && !errors.As(err, &usage):
			t.Errorf("%q: %v", id, err)
		case err == nil:
			for _, got := range ids {
				if checkProduct(got) != nil || !strings.Contains(id, got) {
					t.Errorf("%q became %q", id, ids)
				}
			}
		}
	})
}
