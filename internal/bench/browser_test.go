package bench

import (
	"context"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// What a browser makes of the page: how many pictures have a size, whether anything is wider than the window or was fetched,
// and texts of a picture that lie over each other.
const inspect = `<script>
addEventListener('load', () => {
  const boxes = [...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect());
  let over = 0;
  for (const s of document.querySelectorAll('svg')) {
    const t = [...s.querySelectorAll('text')].map(e => e.getBoundingClientRect()).filter(b => b.width > 0);
    t.forEach((a, i) => t.slice(i + 1).forEach(b => {
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3) over++;
    }));
  }
  const p = document.createElement('p');
  p.textContent = 'inspected: pictures ' + boxes.filter(b => b.width > 300 && b.height > 100).length +
    ', too wide ' + (document.documentElement.scrollWidth > innerWidth) + ', fetched ' + performance.getEntriesByType('resource').length +
    ', rows ' + document.querySelectorAll('td').length + ', texts over each other ' + over;
  document.body.append(p);
});
</script>`

func TestABrowserShowsThePage(t *testing.T) {
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("the test needs Chromium: apt-get install chromium")
		}
		t.Skip("NOT RUN, Chromium is missing: apt-get install chromium")
	}
	var b strings.Builder
	if err := sample().WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a helper of the browser's may still write there: that is no failure
	page := filepath.Join(dir, "report.html")
	if err := os.WriteFile(page, []byte(strings.Replace(b.String(), "</body>", inspect+"</body>", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--proxy-server=127.0.0.1:9", "--user-data-dir="+filepath.Join(dir, "profile"), "--window-size=1000,1400", "--dump-dom", "file://"+page)
	cmd.WaitDelay = time.Minute
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", browser, err)
	}
	got := html.UnescapeString(regexp.MustCompile(`inspected: pictures \d[^<]*`).FindString(string(out)))
	if want := "inspected: pictures 3, too wide false, fetched 0, rows 20, texts over each other 0"; got != want {
		t.Errorf("the browser says %q, want %q", got, want)
	}
}
