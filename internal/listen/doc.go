// Package listen turns NOTIFY into one bit: "look at the table now".
//
// It promises that whatever may have made work due rings the Doorbell: a notification, a due time, a new connection (what was
// announced while there was none is lost), an echo that did not come back, and, as the net under all of them, a slow poll. It
// promises nothing about what the look will find, and knows of jobs no more than the id of one that a commit has handed to somebody.
//
// A Listener owns one connection, never one of a pool, does nothing on it itself but LISTEN and read, and never keeps it in a
// transaction: a session that listens and does not read holds back vacuum. It lends it, for a statement, to who takes a job
// that a commit has handed over (handed.go). Whether it still hears is not a matter of TCP: a
// black hole and a transaction pooler are both silent without an error. So the process regularly sends itself an echo through
// its pool, and a connection that does not hear it is replaced. While notifications can't be had, the Listener says why and
// polls more often.
//
// Of many processes only a few listen at a time: those that have a seat. The others wait for one in reserve (seat.go), on a
// connection of its own (session.go).
//
// Start reading at doorbell.go, then listener.go (the life of the connection), tend.go and hint.go (what a payload may say).
package listen
