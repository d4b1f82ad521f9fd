package load

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// maxLine bounds what one line can make us hold; a real one has less than a hundred bytes.
const maxLine = 1 << 20

var errLineTooLong = errors.New("the line is longer than 1 MiB")

// lines reads a text line by line, and goes on behind a line that is too long.
type lines struct {
	r   *bufio.Reader
	no  int // number of the line returned last, from 1
	buf []byte
}

// openLines unpacks r if it begins as a gzip file does. Every byte that is read of r is counted.
func openLines(r io.Reader, read *atomic.Int64) (*lines, error) {
	packed := bufio.NewReaderSize(&countingReader{r: r, n: read}, 64<<10)
	magic, err := packed.Peek(2)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read the first bytes: %w", err)
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return &lines{r: packed}, nil
	}
	z, err := gzip.NewReader(packed)
	if err != nil {
		return nil, fmt.Errorf("unpack gzip: %w", err)
	}
	return &lines{r: bufio.NewReaderSize(z, 64<<10)}, nil
}

// next returns a line without its end; the slice is good until the next call. It returns io.EOF behind the last one, and
// errLineTooLong with the beginning of a line that is too long.
func (l *lines) next() ([]byte, error) {
	l.buf = l.buf[:0]
	tooLong := false
	for {
		part, err := l.r.ReadSlice('\n')
		if len(l.buf)+len(part) <= maxLine {
			l.buf = append(l.buf, part...)
		} else {
			tooLong = true
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil && (err != io.EOF || len(l.buf) == 0 && !tooLong):
			return nil, err
		}
		l.no++
		if tooLong {
			return l.buf, errLineTooLong
		}
		line := bytes.TrimSuffix(l.buf, []byte("\n"))
		return bytes.TrimSuffix(line, []byte("\r")), nil
	}
}

type countingReader struct {
	r io.Reader
	n *atomic.Int64 // written by the goroutine that reads, read by whoever shows progress
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}
