// Command gensample prints the sample tariff file: go generate ./examples/pricing. The same seed gives the same file.
package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// The first catalog has most of the load, as real suppliers do.
var catalogs = []struct {
	name    string
	updates int
	codes   []string
}{
	{"kitchen", 60, codes(21000, 18, "ABC")},
	{"garden", 12, codes(35010, 8, "AB")},
	{"toys", 10, codes(47800, 8, "")},
	{"lighting", 8, codes(52300, 5, "abC")},
	{"stationery", 6, codes(60120, 6, "")},
	{"workshop", 3, append(codes(71500, 4, ""), "POST", "gift_0001_20", "HIRE CHARGES")},
}

// flaws are lines that can't be published, and legal ones that look odd. They stand between the updates that follow them.
var flaws = map[int][]string{
	7:  {`2024-03-04T08:17:00Z,T-FLAW-1,kitchen,21003A,-4.95`},
	19: {`2024-03-04T09:01:00Z,T-FLAW-2,garden,35010A,12.5O`, `2024-03-04T09:01:00Z,T-FLAW-2,garden,35010B,12.50`},
	33: {`2024-03-04T10:12:00Z,T-FLAW-3,toys,,3.20`},
	48: {`2024-03-04T11:30:00Z,T-FLAW-4,lighting,52300a`},
	61: {`2024-03-04 25:61,T-FLAW-5,kitchen,21004B,2.10`},
	74: {`2024-03-04T13:05:00Z,T-ODD-1,workshop,"SET ""COPPER"", 3 PIECES",24.90`},
}

func codes(first, n int, variants string) []string {
	var out []string
	for i := range n {
		if variants == "" || i%3 == 0 {
			out = append(out, fmt.Sprint(first+i))
			continue
		}
		for _, v := range variants {
			out = append(out, fmt.Sprintf("%d%c", first+i, v))
		}
	}
	return out
}

func main() {
	r := rand.New(rand.NewPCG(7, 42))
	var order []int
	for i, c := range catalogs {
		for range c.updates {
			order = append(order, i)
		}
	}
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })

	w := bufio.NewWriter(os.Stdout)
	fmt.Fprintln(w, "published_at,update_id,catalog_id,product_id,unit_price")
	at := time.Date(2024, 3, 4, 8, 0, 0, 0, time.UTC)
	for n, i := range order {
		for _, line := range flaws[n] {
			fmt.Fprintln(w, line)
		}
		c := catalogs[i]
		at = at.Add(time.Duration(r.IntN(6)) * time.Minute)
		lines := 1 + r.IntN(4)
		if n%25 == 24 {
			lines = len(c.codes) // now and then a supplier sends everything
		}
		for _, k := range r.Perm(len(c.codes))[:min(lines, len(c.codes))] {
			cents := 20 + r.IntN(2000)
			if r.IntN(60) == 0 {
				cents = 0 // given away
			}
			fmt.Fprintf(w, "%s,T%05d,%s,%s,%d.%02d\n", at.Format(time.RFC3339), 10000+n, c.name, c.codes[k], cents/100, cents%100)
		}
	}
	if err := w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "gensample:", err)
		os.Exit(1)
	}
}
