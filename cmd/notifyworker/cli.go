package main

const description = `Event-driven price refreshes and other jobs on PostgreSQL.

Every setting is a flag, an environment variable, or a key of the file named by --config, in this order of precedence.
Exit codes: 0 done, 1 failed, 2 wrong flags or configuration, 130 or 143 ended at once by a second Ctrl-C or SIGTERM.`

// cli is the command line.
type cli struct {
	Config string `env:"NOTIFYWORKER_CONFIG" placeholder:"FILE" help:"YAML file with settings."`

	Run     runCmd     `cmd:"" help:"Work jobs until told to stop."`
	Migrate migrateCmd `cmd:"" help:"Install or update the schema."`
	Demo    demoCmd    `cmd:"" help:"Show it at work, with a PostgreSQL of its own; needs nothing."`
	Bench   benchCmd   `cmd:"" help:"Measure it, beside polling and other ways; needs nothing."`
	Load    loadCmd    `cmd:"" help:"Publish a file of supplier tariffs, as an API pod would."`
	Enqueue enqueueCmd `cmd:"" help:"Enqueue a price refresh or another job."`
	Refresh refreshCmd `cmd:"" help:"Refresh a whole catalog, or some of its products."`
	Replay  replayCmd  `cmd:"" help:"Bring failed jobs back."`
	Cancel  cancelCmd  `cmd:"" help:"End waiting or running jobs."`
	Purge   purgeCmd   `cmd:"" help:"Remove jobs that ended long ago."`
	Stats   statsCmd   `cmd:"" help:"Show what waits, what runs, and who works."`
	Version versionCmd `cmd:"" help:"Print the version."`
}
