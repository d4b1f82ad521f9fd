package embedded

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

const nativeFolder = "package/native/" // holds bin, lib and share

// link is a symlink that the tarball could not carry: both names start with native/.
type link struct{ Source, Target string }

// unpack writes the package's bin, lib and share below dst, and makes the symlinks that npm tarballs cannot carry: they
// are listed in pg-symlinks.json, and the server does not start without them.
func unpack(tgz []byte, dst string) error {
	zr, err := gzip.NewReader(bytes.NewReader(tgz))
	if err != nil {
		return err
	}
	var links []link
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		switch {
		case h.Typeflag != tar.TypeReg || !strings.HasPrefix(name, nativeFolder):
			continue
		case name == nativeFolder+"pg-symlinks.json":
			if err := json.NewDecoder(tr).Decode(&links); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			continue
		case strings.HasSuffix(name, ".a"), strings.Contains(name, "/pkgconfig/"), strings.Contains(name, "/pgxs/"):
			continue // for building against, not for running
		}
		if err := unpackFile(tr, dst, filepath.FromSlash(strings.TrimPrefix(name, nativeFolder))); err != nil {
			return err
		}
	}
	for _, l := range links {
		src, target := strings.TrimPrefix(l.Source, "native/"), strings.TrimPrefix(l.Target, "native/")
		if !filepath.IsLocal(src) || !filepath.IsLocal(target) || path.Dir(src) != path.Dir(target) {
			return fmt.Errorf("unsafe link %q", l.Target)
		}
		err := os.Symlink(path.Base(src), filepath.Join(dst, target))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func unpackFile(r io.Reader, dst, rel string) error {
	if !filepath.IsLocal(rel) {
		return fmt.Errorf("unsafe path %q", rel)
	}
	p := filepath.Join(dst, rel)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if strings.HasPrefix(rel, "bin"+string(filepath.Separator)) {
		mode = 0o755
	}
	f, err := os.OpenFile(p, os.O_CREATE|os.O_WRONLY|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
