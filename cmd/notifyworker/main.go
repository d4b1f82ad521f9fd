// Command notifyworker works jobs that wait in PostgreSQL, woken by notifications.
//
// This is the only place where the parts meet: one file a subcommand. Start reading at cli.go (which there are), then run.go,
// keep.go (its databases) and wire.go (the worker of each). Where a setting comes from is in configfile.go, whether it is right
// in settings.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"unicode/utf8"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgconn"

	"notifyworker/internal/queue"
)

// Exit codes. A process ended by its second signal exits with 128 plus its number: 130 for Ctrl-C, 143 for SIGTERM.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2 // the command line, environment or file is wrong; nothing was done
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200) // of a heap of some MiB: a drained queue costs the worker a sixth less, and it 4 MiB
	}
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// environment is what every subcommand gets besides its flags.
type environment struct {
	ctx            context.Context
	stdin          io.Reader
	stdout, stderr io.Writer // passwords that are known are cut out of both
	secrets        *secrets
	file           fileConfig
}

// usageError is an error of the command line, the environment or the file.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitError ends the process with a code of its own; an empty text says that all has been told.
type exitError struct {
	code int
	text string
}

func (e exitError) Error() string { return e.text }

// exitRequest is how kong's --help and --version leave the parser.
type exitRequest int

func execute(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		if r := recover(); r != nil {
			request, ok := r.(exitRequest)
			if !ok {
				panic(r)
			}
			code = int(request)
		}
	}()
	e := &environment{ctx: context.Background(), stdin: stdin, secrets: newSecrets(os.Environ(), args)}
	e.stdout, e.stderr = e.secrets.writer(stdout), e.secrets.writer(stderr)

	err := e.run(args)
	var exit exitError
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		if exit.text != "" {
			fmt.Fprintf(e.stderr, "notifyworker: %s\n", exit.text)
		}
		return exit.code
	case errors.As(err, &usage):
		fmt.Fprintf(e.stderr, "notifyworker: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(e.stderr, "notifyworker: %v%s\n", err, advice(err))
	return exitFailure
}

// advice is what the server, or we, have to say besides an error.
func advice(err error) (text string) {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		for _, s := range []string{pg.Detail, pg.Hint} {
			if s != "" {
				text += "\n  " + s
			}
		}
	}
	if s := queue.Advice(err); s != "" {
		text += "\n  " + s
	}
	return text
}

func (e *environment) run(args []string) (err error) {
	if e.file, err = readConfigFile(configPath(args)); err != nil {
		return usageError{err}
	}
	e.secrets.learn(e.file.texts()...)
	var c cli
	parser, err := kong.New(&c,
		kong.Name("notifyworker"),
		kong.Description(description),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Writers(e.stdout, e.stderr),
		kong.Exit(func(code int) { panic(exitRequest(code)) }),
		kong.Resolvers(e.file),
		kong.Bind(e),
	)
	if err != nil {
		return fmt.Errorf("set up the command line: %w", err)
	}
	for i, a := range args { // the parser would put other letters in place of those; nor is it shown: it may have a password in it
		if !utf8.ValidString(a) {
			return usageError{fmt.Errorf("argument %d is not UTF-8: write it in UTF-8", i+1)}
		}
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	chosen, err := parser.Parse(args)
	if err != nil {
		return usageError{fmt.Errorf("%w; see notifyworker --help", err)}
	}
	return chosen.Run()
}
