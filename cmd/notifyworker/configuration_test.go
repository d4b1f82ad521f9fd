package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var update = flag.Bool("update", false, "write the tables of flags into docs/configuration.md")

const configurationPage = "../../docs/configuration.md"

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(configurationPage)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func model(t *testing.T, file fileConfig, args ...string) (*cli, *kong.Kong) {
	t.Helper()
	var c cli
	k, err := kong.New(&c, kong.Name("notifyworker"), kong.Resolvers(file), kong.Bind(&environment{file: file}))
	if err != nil {
		t.Fatal(err)
	}
	if len(args) > 0 {
		if _, err := k.Parse(args); err != nil {
			t.Fatal(err)
		}
	}
	return &c, k
}

func TestTheConfigurationPageHasEveryFlag(t *testing.T) {
	text := page(t)
	begin := strings.Index(text, "<!-- flags:")
	begin += strings.Index(text[begin:], "\n") + 1
	end := strings.Index(text, "<!-- end of flags -->")
	if begin < 0 || end < begin {
		t.Fatal("the page has lost the marks between which its flags stand")
	}
	_, k := model(t, fileConfig{})
	want := flagTables(k)
	if *update {
		if err := os.WriteFile(configurationPage, []byte(text[:begin]+want+text[end:]), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text[begin:end] != want {
		t.Errorf("docs/configuration.md does not have the flags of the code: run go test ./cmd/notifyworker -run %s -update\nwant\n%s", t.Name(), want)
	}
}

// flagTables writes a table of the subcommands, and one a group of flags. What several subcommands share stands in the first table alone.
func flagTables(k *kong.Kong) string {
	shared := map[string]int{}
	for _, node := range k.Model.Children {
		for _, f := range node.Flags {
			shared[f.Name]++
			if f.Name == "database-url" || f.Name == "schema" {
				shared[f.Name+f.Help]++
			}
		}
	}
	var b strings.Builder
	fmt.Fprint(&b, "\n| subcommand | what it does |\n|---|---|\n")
	for _, node := range k.Model.Children {
		line, help := code(node.Name), node.Help
		for _, p := range node.Positional {
			line += " " + code(strings.NewReplacer("<", "", ">", "", " ...", "…").Replace(p.Summary()))
			help += " " + code(p.Name) + ": " + p.Help
		}
		fmt.Fprintf(&b, "| %s | %s |\n", line, help)
	}
	table := func(title string, flags []*kong.Flag) {
		if len(flags) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n### %s\n\n| flag | variable | key | default | meaning |\n|---|---|---|---|---|\n", title)
		for _, f := range flags {
			help, standard := meaning(f.Help)
			fmt.Fprintf(&b, "| `--%s` | %s | %s | %s | %s |\n", f.Name, code(strings.Join(f.Envs, "` `")), code(fileKey(f)), standard, help)
		}
	}
	visible := func(f *kong.Flag) bool { return !f.Hidden && f.Name != "help" }
	var everywhere []*kong.Flag
	for _, f := range k.Model.Flags {
		if visible(f) {
			everywhere = append(everywhere, f)
		}
	}
	seen := map[string]bool{}
	for _, node := range k.Model.Children {
		for _, f := range node.Flags {
			if (f.Name == "database-url" || f.Name == "schema") && !seen[f.Name] && shared[f.Name] > 1 {
				seen[f.Name] = true
				everywhere = append(everywhere, f)
			}
		}
	}
	table("All subcommands", everywhere)
	for _, node := range k.Model.Children {
		groups := map[string][]*kong.Flag{}
		var order []string
		for _, f := range node.Flags {
			if !visible(f) || shared[f.Name+f.Help] > 1 {
				continue
			}
			title := "`notifyworker " + node.Name + "`"
			if f.Group != nil {
				title += ": " + strings.ToLower(f.Group.Title)
			}
			if groups[title] == nil {
				order = append(order, title)
			}
			groups[title] = append(groups[title], f)
		}
		for _, title := range order {
			table(title, groups[title])
		}
	}
	return b.String() + "\n"
}

var standardText = regexp.MustCompile(`\s*\(default:? ([^)]*)\)`)

// meaning takes the default out of a flag's help.
func meaning(help string) (text, standard string) {
	if m := standardText.FindStringSubmatch(help); m != nil {
		standard = m[1]
	}
	return strings.ReplaceAll(standardText.ReplaceAllString(help, ""), "|", `\|`), standard
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func fileKey(f *kong.Flag) string {
	if f.Tag.Has("nofile") {
		return ""
	}
	for key, name := range fileKeys {
		if name == f.Name {
			return key
		}
	}
	for key, name := range engineKeys {
		if name == f.Name {
			return "engine." + key
		}
	}
	return ""
}

func TestTheConfigurationPageHasEveryKeyOfAType(t *testing.T) {
	_, rest, _ := strings.Cut(page(t), "### Settings of a job type\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	var keys []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(section, -1) {
		keys = append(keys, m[1])
	}
	if !slices.Equal(slices.Sorted(slices.Values(keys)), slices.Sorted(slices.Values(typeKeys))) {
		t.Errorf("the page lists %v, the code knows %v", keys, typeKeys)
	}
}

func TestTheFileOfTheConfigurationPageIsTaken(t *testing.T) {
	_, rest, _ := strings.Cut(page(t), "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	for _, name := range slices.Collect(maps.Keys(environMap())) {
		if strings.HasPrefix(name, "NOTIFYWORKER_") || name == "DATABASE_URL" {
			t.Setenv(name, "")
		}
	}
	file, err := readConfigFile(writeFile(t, text))
	if err != nil {
		t.Fatal(err)
	}
	c, _ := model(t, file, "run")
	s, err := c.Run.check(file)
	if err != nil {
		t.Fatal(err)
	}
	if s.slots != 16 || s.engine.chunk != 1000 || s.handlers["csv_import"].target.function != "app.import_csv" || s.types["PRICE_REFRESH"].MaxAttempts != 50 {
		t.Errorf("got %+v", s)
	}
}

func environMap() map[string]string {
	m := map[string]string{}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		m[name] = value
	}
	return m
}

func TestTheExitCodesOfThePageAreThoseOfTheCode(t *testing.T) {
	_, section, _ := strings.Cut(page(t), "## Exit codes\n")
	for _, code := range []int{exitOK, exitFailure, exitUsage} {
		if !strings.Contains(section, fmt.Sprintf("\n| %d | ", code)) {
			t.Errorf("the page does not tell exit code %d", code)
		}
	}
}

// A key whose flag has another name would be taken from a file and then forgotten.
func TestEveryKeyOfAFileIsAFlag(t *testing.T) {
	_, k := model(t, fileConfig{})
	flags := map[string]bool{}
	for _, node := range k.Model.Children {
		for _, f := range node.Flags {
			flags[f.Name] = true
		}
	}
	for _, keys := range []map[string]string{fileKeys, engineKeys} {
		for key, name := range keys {
			if !flags[name] || strings.ReplaceAll(name, "-", "_") != key {
				t.Errorf("key %s is for --%s, which is no flag or is looked up by another key", key, name)
			}
		}
	}
}

// The file of a worker names the database that is worked on for real.
func TestBenchAndDemoTakeADatabaseFromTheCommandLineAlone(t *testing.T) {
	t.Setenv("DATABASE_URL", "")
	file, err := readConfigFile(writeFile(t, "database_url: postgres://u@h/production\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c, _ := model(t, file, "run"); !slices.Equal(c.Run.DatabaseURL, []string{"postgres://u@h/production"}) {
		t.Errorf("run takes %v", c.Run.DatabaseURL)
	}
	for _, args := range [][]string{{}, {"--database-url=postgres://u@h/other"}} {
		bench, _ := model(t, file, append([]string{"bench"}, args...)...)
		demo, _ := model(t, file, append([]string{"demo"}, args...)...)
		for _, got := range []string{bench.Bench.DatabaseURL, demo.Demo.DatabaseURL} {
			if want := strings.TrimPrefix(strings.Join(args, ""), "--database-url="); got != want {
				t.Errorf("bench or demo takes %q, want %q", got, want)
			}
		}
	}
}
