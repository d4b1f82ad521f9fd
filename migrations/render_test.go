package migrations

import "testing"

func TestRender(t *testing.T) {
	for _, c := range []struct{ schema, sql, want string }{
		{"notifyworker", `:"schema".jobs :'schema'`, `"notifyworker".jobs 'notifyworker'`},
		{`a"b`, `:"schema"`, `"a""b"`},
		{`it's`, `SELECT :'schema'`, `SELECT 'it''s'`},
		{`a\b`, `SELECT :'schema'`, `SELECT  E'a\\b'`},
		{`x`, `a::text :schema $1`, `a::text :schema $1`},
		{`:'schema'`, `:"schema"`, `":'schema'"`},
	} {
		if got := Render(c.sql, c.schema); got != c.want {
			t.Errorf("Render(%s, %s): got %s, want %s", c.sql, c.schema, got, c.want)
		}
	}
}
