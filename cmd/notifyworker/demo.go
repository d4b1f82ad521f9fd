package main

import "errors"

type demoCmd struct{}

func (demoCmd) Run(*environment) error { return errors.New("not yet") }
