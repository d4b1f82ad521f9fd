package load

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"notifyworker/examples/pricing"
	"notifyworker/internal/pgtest"
)

const header = "published_at,update_id,catalog_id,product_id,unit_price\n"

// readAll returns the rows as "update/catalog/product/price", the updates by their size, and the rejects.
func readAll(t *testing.T, file []byte) (rows []string, sizes []int, rejects []Reject, err error) {
	t.Helper()
	var n atomic.Int64
	r, err := NewReader(bytes.NewReader(file), &n, func(r Reject) { rejects = append(rejects, r) })
	if err != nil {
		return nil, nil, nil, err
	}
	for {
		u, err := r.Next()
		if err == io.EOF {
			if n.Load() != int64(len(file)) {
				t.Errorf("counted %d bytes of %d", n.Load(), len(file))
			}
			return rows, sizes, rejects, nil
		}
		if err != nil {
			return rows, sizes, rejects, err
		}
		sizes = append(sizes, len(u.Rows))
		for _, row := range u.Rows {
			rows = append(rows, strings.Join([]string{row.UpdateID, row.CatalogID, row.ProductID, row.UnitPrice}, "/"))
		}
	}
}

func TestConsecutiveLinesOfOneIDAreOneUpdate(t *testing.T) {
	rows, sizes, rejects, err := readAll(t, []byte(header+
		"2024-01-01T00:00:00Z,a,c,p1,1\n2024-01-01T00:00:00Z,a,c,p2,2\n\n2024-01-01T00:00:00Z,b,c,p1,3\n2024-01-01T00:00:00Z,a,c,p3,4"))
	if err != nil || len(rejects) != 0 {
		t.Fatalf("err %v, rejects %v", err, rejects)
	}
	if want := []int{2, 1, 1}; !reflect.DeepEqual(sizes, want) {
		t.Errorf("updates of %v rows, want %v", sizes, want)
	}
	if want := []string{"a/c/p1/1", "a/c/p2/2", "b/c/p1/3", "a/c/p3/4"}; !reflect.DeepEqual(rows, want) {
		t.Errorf("rows %v, want %v", rows, want)
	}
}

func TestTheHeaderMayComeInAnyOrderWithABOMAndMoreColumns(t *testing.T) {
	rows, _, rejects, err := readAll(t, []byte("\ufeffunit_price,\"Product_ID\",note,catalog_id,published_at, update_id\r\n"+
		"2.50,p1,\"a, b\",c,2024-01-01,u\r\n"))
	if err != nil || len(rejects) != 0 || len(rows) != 1 || rows[0] != "u/c/p1/2.50" {
		t.Fatalf("rows %v, rejects %v, err %v", rows, rejects, err)
	}
}

func TestAWrongHeaderSaysAllThatIsMissing(t *testing.T) {
	for file, want := range map[string][]string{
		"":      {"empty"},
		"a;b\n": {"published_at is missing", "unit_price is missing"},
		strings.Replace(header, "update_id", "catalog_id", 1): {"update_id is missing", "catalog_id is there twice"},
		"\"published_at\n": {"quoted field"},
		"\xff\xfe\n":       {"UTF-8"},
	} {
		_, _, _, err := readAll(t, []byte(file))
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("header %q: error %v, want %q in it", file, err, w)
			}
		}
	}
}

func TestALineThatCantBePublishedIsReportedAndStopsNothing(t *testing.T) {
	good := "2024-01-01T00:00:00Z,u,c,p,1.00"
	for _, tt := range []struct{ name, line, reason string }{
		{"negative price", "2024-01-01T00:00:00Z,u,c,p,-0.01", "negative"},
		{"price with letters", "2024-01-01T00:00:00Z,u,c,p,12.5O", "not a number"},
		{"price with a comma", `2024-01-01T00:00:00Z,u,c,p,"12,50"`, "not a number"},
		{"exponent", "2024-01-01T00:00:00Z,u,c,p,1e400", "not a number"},
		{"hex", "2024-01-01T00:00:00Z,u,c,p,0x10", "not a number"},
		{"NaN", "2024-01-01T00:00:00Z,u,c,p,NaN", "not a number"},
		{"two signs", "2024-01-01T00:00:00Z,u,c,p,--1", "not a number"},
		{"only a point", "2024-01-01T00:00:00Z,u,c,p,.", "not a number"},
		{"two points", "2024-01-01T00:00:00Z,u,c,p,1.2.3", "not a number"},
		{"too many digits", "2024-01-01T00:00:00Z,u,c,p," + strings.Repeat("9", 41), "digits"},
		{"no price", "2024-01-01T00:00:00Z,u,c,p,", "unit_price is empty"},
		{"no product", "2024-01-01T00:00:00Z,u,c,,1", "product_id is empty"},
		{"a product of spaces", "2024-01-01T00:00:00Z,u,c,  ,1", "product_id is empty"},
		{"no catalog", "2024-01-01T00:00:00Z,u,,p,1", "catalog_id is empty"},
		{"no update", "2024-01-01T00:00:00Z,,c,p,1", "update_id is empty"},
		{"long catalog", "2024-01-01T00:00:00Z,u," + strings.Repeat("c", 1025) + ",p,1", "1025 bytes"},
		{"no date", ",u,c,p,1", "published_at is empty"},
		{"bad date", "2024-02-30T00:00:00Z,u,c,p,1", "not a time"},
		{"infinite date", "infinity,u,c,p,1", "not a time"},
		{"too few columns", "2024-01-01T00:00:00Z,u,c,p", "4 columns"},
		{"too many columns", good + ",x", "6 columns"},
		{"open quote", `2024-01-01T00:00:00Z,u,c,"p,1.00`, "does not end"},
		{"bare quote", `2024-01-01T00:00:00Z,u,c,p"q,1.00`, "a quote stands inside"},
		{"text after a quote", `2024-01-01T00:00:00Z,u,c,"p"q,1.00`, "between the end"},
		{"NUL", "2024-01-01T00:00:00Z,u,c,p\x00,1", "NUL"},
		{"not UTF-8", "2024-01-01T00:00:00Z,u,c,p\xe9,1", "UTF-8"},
		{"too long", strings.Repeat("x", 2<<20), "1 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rows, _, rejects, err := readAll(t, []byte(header+good+"\n"+tt.line+"\n"+good+"\n"))
			if err != nil || len(rows) != 2 {
				t.Fatalf("%d rows around the bad line, want 2; err %v", len(rows), err)
			}
			if len(rejects) != 1 || rejects[0].Line != 3 || !strings.Contains(rejects[0].Reason, tt.reason) {
				t.Errorf("rejects %+v, want line 3 with %q", rejects, tt.reason)
			}
		})
	}
}

func TestLegalLinesThatLookOdd(t *testing.T) {
	rows, _, rejects, err := readAll(t, []byte(header+
		`2024-01-01T00:00:00Z,u,c,"SET ""RED"", 3 PIECES",0.00`+"\n"+
		`2024-01-01 12:00,u,c,47503J ,-0`+"\n"+
		`2024-01-01T00:00:00.123456+02:00,u,c,85123a, +.5 `+"\n"+
		`2024-01-01T00:00:00Z,u,"",p,1`+"\n"+
		`2024-01-01,u,c,ÄÖ,007.`+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`u/c/SET "RED", 3 PIECES/0.00`, "u/c/47503J /0", "u/c/85123a/.5", "u/c/ÄÖ/007."}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}
	if len(rejects) != 1 || rejects[0].Line != 5 {
		t.Errorf("rejects %+v, want the empty catalog of line 5", rejects)
	}
}

func TestGzipIsSeenByItsFirstBytes(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for i := range 1000 {
		if i == 0 {
			io.WriteString(z, header)
		}
		fmt.Fprintf(z, "2024-01-01T00:00:00Z,u%d,c,p,1\n", i)
	}
	z.Close()
	rows, _, _, err := readAll(t, packed.Bytes())
	if err != nil || len(rows) != 1000 {
		t.Fatalf("%d rows, err %v", len(rows), err)
	}
	rows, _, _, err = readAll(t, packed.Bytes()[:packed.Len()/2])
	if !errors.Is(err, io.ErrUnexpectedEOF) || len(rows) == 0 {
		t.Errorf("half a file: %d rows, err %v; want what can be read, then an unexpected EOF", len(rows), err)
	}
}

func TestAHugeUpdateIsCutIntoParts(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(header)
	for i := range maxUpdateRows + 1 {
		fmt.Fprintf(&b, "2024-01-01T00:00:00Z,u,c,p%d,1\n", i)
	}
	_, sizes, _, err := readAll(t, b.Bytes())
	if err != nil || !reflect.DeepEqual(sizes, []int{maxUpdateRows, 1}) {
		t.Fatalf("sizes %v, err %v", sizes, err)
	}
}

func TestTheSampleFileHasItsFlaws(t *testing.T) {
	rows, _, rejects, err := readAll(t, pricing.SampleTariffs())
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) < 300 || len(rejects) != 5 {
		t.Errorf("%d rows and %d rejects, want over 300 and 5: %+v", len(rows), len(rejects), rejects)
	}
}

func TestRefreshesAreSortedByCatalogAndNameEachProductOnce(t *testing.T) {
	u := Update{Rows: []Row{{CatalogID: "z", ProductID: "p2"}, {CatalogID: "a", ProductID: "p<1>"}, {CatalogID: "z", ProductID: "p1"}, {CatalogID: "z", ProductID: "p2"}}}
	data, n := u.refreshes()
	want := `[{"catalogId":"a","productIds":["p\u003c1\u003e"]},{"catalogId":"z","productIds":["p2","p1"]}]`
	if string(data) != want || n != 3 {
		t.Errorf("%s of %d ids, want %s of 3", data, n, want)
	}
}

// FuzzSplitFields compares with encoding/csv, which is right about everything within a line.
func FuzzSplitFields(f *testing.F) {
	for _, s := range []string{"", "a,b", `"a,b",c`, `"a""b"`, `""`, `a"b`, `"a`, `"a"b,c`, ",,", `"",""`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "\r\n") || line == "" {
			return // not a line
		}
		got, err := splitFields(line, nil)
		r := csv.NewReader(strings.NewReader(line))
		r.FieldsPerRecord = -1
		want, wantErr := r.Read()
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: error %v, encoding/csv says %v", line, err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %q, encoding/csv says %q", line, got, want)
		}
	})
}

// FuzzReader: each line of a file, whatever is in it, is published, rejected with a reason, or empty; and none of them twice.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		"", "2024-01-01,u,c,p,1\n", "2024-01-01T00:00:00Z,u,c,p,1\r\n\r\nu\n", "\x00\n\xff\n", "\"\n,,,,\n", "0001-01-01,u,c,p,.5\n9999-12-31,u,c,p,5.\n",
		"2024-01-01,u,c,p,-0\n2024-01-01,u,c,p,+1e3\n", "2024-01-01T23:59:60Z,u,c,p,1\n", "2024-01-01,\u2028,e\u0301,\U0001f600,00.10\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
			return
		}
		rows, _, rejects, err := readAll(t, append([]byte(header), body...))
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		lines := 0
		for line := range bytes.Lines(body) {
			if line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")); len(line) > 0 {
				lines++
			}
		}
		if len(rows)+len(rejects) != lines {
			t.Errorf("%q: %d rows and %d rejects of %d lines", body, len(rows), len(rejects), lines)
		}
		for _, r := range rejects {
			if r.Reason == "" || r.Line < 2 {
				t.Errorf("%q: rejected %+v", body, r)
			}
		}
	})
}

// FuzzRow: what is read of a line is what the database takes: its price a number that is not negative, its time a time.
func FuzzRow(f *testing.F) {
	db := pgtest.Empty(f).Conn(f)
	for _, s := range [][2]string{
		{"2024-01-01T00:00:00Z", "1.50"},
		{"0001-01-01", "."},
		{"9999-12-31 23:59:59.999999999", "5."},
		{"2024-01-01 00:00", "-0.0"},
		{"2024-02-30", "1_000"},
		{"2024-01-01T00:00:00+23:59", "١"},
		{"0001-01-01T00:00:00+14:00", "1e5"},
		{"9999-12-31T23:59:59-14:00", strings.Repeat("9", 40)},
		{"infinity", "NaN"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, at, price string) {
		row, err := parseRow(at, "u", "c", "p", price)
		if err != nil {
			return
		}
		var ok bool
		if err := db.QueryRow(t.Context(), `SELECT $1::text::numeric >= 0 AND $2::timestamptz >= '0001-01-01 00:00:00Z'`, row.UnitPrice, row.PublishedAt).Scan(&ok); err != nil || !ok {
			t.Errorf("%q became %s, %q became %v: %v, %v", price, row.UnitPrice, at, row.PublishedAt, ok, err)
		}
	})
}
