package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// fileConfig is a configuration file: flat values by key, nested ones as engine.chunk; and the settings of job types.
type fileConfig struct {
	path   string
	values map[string]string
	types  map[string]typeFlags
}

// typeFlags are the settings of one job type as they were written.
type typeFlags struct {
	values map[string]string
}

// The keys that a file may have, each with the name of its flag.
var (
	fileKeys = map[string]string{
		"database_url": "database-url", "listen_url": "listen-url", "schema": "schema", "slots": "slots", "wake": "wake",
		"poll_interval": "poll-interval", "variant": "variant", "lease": "lease", "drain_timeout": "drain-timeout",
		"max_ids": "max-ids", "start_timeout": "start-timeout", "http": "http", "retain_completed": "retain-completed", "retain_failed": "retain-failed", "log_format": "log-format", "log_level": "log-level",
	}
	engineKeys = map[string]string{
		"recompute": "recompute", "recompute_timeout": "recompute-timeout", "article_function": "article-function",
		"products_function": "products-function", "chunk": "chunk", "refreshes": "refreshes", "refresh_queue": "refresh-queue",
	}
	listKeys = []string{"database_url", "listen_url"} // may be lists
	typeKeys = []string{"url", "function", "timeout", "max_attempts", "backoff", "backoff_cap", "lease"}
)

// configPath is the file that the command line or the environment names, before anything is parsed: what is in it takes
// part in the parsing.
func configPath(args []string) string {
	for i, a := range args {
		if a == "--" {
			break
		}
		if v, ok := strings.CutPrefix(a, "--config="); ok {
			return v
		}
		if a == "--config" && i+1 < len(args) {
			return args[i+1]
		}
	}
	return os.Getenv("NOTIFYWORKER_CONFIG")
}

// readConfigFile returns all that is wrong with a file at once; "" is no file.
func readConfigFile(path string) (fileConfig, error) {
	c := fileConfig{path: path, values: map[string]string{}, types: map[string]typeFlags{}}
	if path == "" {
		return c, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("read the configuration: %w", err)
	}
	if err := c.parse(data); err != nil {
		return c, fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, nil
}

func (c *fileConfig) parse(data []byte) error {
	var doc, second yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(data))
	if err := in.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := in.Decode(&second); err == nil {
		return fmt.Errorf("line %d: a second document begins here: write all settings into one", second.Line)
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	if doc.Kind == 0 || len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return nil
	}
	var errs []error
	known := append(sortedKeys(fileKeys), "engine", "types")
	errs = append(errs, eachKey(doc.Content[0], "", known, func(key string, v *yaml.Node) error {
		switch key {
		case "engine":
			return eachKey(v, "engine.", sortedKeys(engineKeys), func(key string, v *yaml.Node) error {
				return scalar(v, "engine."+key, c.values)
			})
		case "types":
			return eachKey(v, "types.", nil, c.jobType)
		}
		if v.Kind == yaml.SequenceNode && slices.Contains(listKeys, key) {
			return list(v, key, c.values)
		}
		return scalar(v, key, c.values)
	}))
	return errors.Join(errs...)
}

func (c *fileConfig) jobType(name string, v *yaml.Node) error {
	t := typeFlags{values: map[string]string{}}
	c.types[name] = t
	return eachKey(v, "types."+name+".", typeKeys, func(key string, v *yaml.Node) error { return scalar(v, key, t.values) })
}

// eachKey calls f for the keys of a mapping and refuses those that are not known; nil known means any.
func eachKey(n *yaml.Node, prefix string, known []string, f func(string, *yaml.Node) error) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		what := "the file"
		if prefix != "" {
			what = strings.TrimSuffix(prefix, ".")
		}
		return fmt.Errorf("line %d: %s must be a list of keys and values", n.Line, what)
	}
	var errs []error
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case k.Kind != yaml.ScalarNode:
			errs = append(errs, fmt.Errorf("line %d: a key must be a word", k.Line))
		case seen[k.Value]:
			errs = append(errs, fmt.Errorf("line %d: %s%s is there twice", k.Line, prefix, k.Value))
		case known != nil && !slices.Contains(known, k.Value):
			errs = append(errs, fmt.Errorf("line %d: %s%s is not a setting%s", k.Line, prefix, k.Value, hint(k.Value, known)))
		default:
			errs = append(errs, f(k.Value, v))
		}
		seen[k.Value] = true
	}
	return errors.Join(errs...)
}

func scalar(v *yaml.Node, key string, into map[string]string) error {
	if v.Kind == yaml.AliasNode {
		v = v.Alias
	}
	if v.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: %s must be a single value", v.Line, key)
	}
	if v.Tag != "!!null" {
		into[key[strings.LastIndex(key, ".")+1:]] = v.Value
	}
	return nil
}

// list takes several values as one text, in which a new line separates them as a blank does.
func list(v *yaml.Node, key string, into map[string]string) error {
	var errs []error
	var all []string
	for _, n := range v.Content {
		one := map[string]string{}
		errs = append(errs, scalar(n, key, one))
		if text := strings.TrimSpace(one[key]); text != "" {
			all = append(all, text)
		}
	}
	into[key] = strings.Join(all, "\n")
	return errors.Join(errs...)
}

// texts are all values, for whoever looks for passwords in them.
func (c fileConfig) texts() []string {
	var all []string
	for _, v := range c.values {
		all = append(all, v)
	}
	for _, t := range c.types {
		for _, v := range t.values {
			all = append(all, v)
		}
	}
	return all
}

// Validate is kong's.
func (c fileConfig) Validate(*kong.Application) error { return nil }

// Resolve is kong's. It steps back where the environment has the setting: kong would let a resolver win over it. A flag with the
// tag nofile is not of the file: what it names is worked on hard, and must have been meant.
func (c fileConfig) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if flag.Tag.Has("nofile") {
		return nil, nil
	}
	for _, name := range flag.Envs {
		if os.Getenv(name) != "" {
			return nil, nil
		}
	}
	key := strings.ReplaceAll(flag.Name, "-", "_")
	if fileKeys[key] == "" && engineKeys[key] == "" {
		return nil, nil
	}
	if v, ok := c.values[key]; ok {
		return v, nil
	}
	return nil, nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// hint names the setting that was probably meant, or all there are.
func hint(word string, known []string) string {
	best, least := "", 4
	for _, k := range known {
		if d := distance(word, k); d < least {
			best, least = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf("; did you mean %s?", best)
	}
	return "; there are " + strings.Join(known, ", ")
}

// distance is how many letters to change, add or drop.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
