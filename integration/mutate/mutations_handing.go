package main

const handSQL = "triggers/24_hand_over.sql"

// handing is what a commit hands to a sleeper.
var handing = []mutation{}
