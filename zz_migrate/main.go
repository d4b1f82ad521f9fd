package main

import (
	"context"
	"fmt"
	"os"

	"notifyworker/migrations"
	"notifyworker/triggers"

	"github.com/jackc/pgx/v5"
)

func main() {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, os.Args[1])
	if err != nil {
		panic(err)
	}
	fmt.Println(migrations.Up(ctx, c, migrations.Options{Triggers: triggers.Files}))
}
