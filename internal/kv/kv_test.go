package kv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

func open(t testing.TB) *DB {
	t.Helper()
	db, err := Open(filepath.Join(t.TempDir(), "x.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func put(db *DB, key, value string) error {
	return db.Update(func(tx *Tx) error { return tx.Bucket("b").Put(key, []byte(value)) })
}

func get(t *testing.T, db *DB, key string) (v string) {
	t.Helper()
	if err := db.View(func(tx *Tx) error { v = string(tx.Bucket("b").Get(key)); return nil }); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestUpdateIsSeenAndFailureIsUndone(t *testing.T) {
	db := open(t)
	if err := put(db, "a", "1"); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	err := db.Update(func(tx *Tx) error {
		if err := tx.Bucket("b").Put("a", []byte("2")); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) || get(t, db, "a") != "1" {
		t.Fatalf("err %v, a=%q: want boom and the old value", err, get(t, db, "a"))
	}
}

func TestConcurrentUpdatesKeepTheirOwnErrorsAndPanics(t *testing.T) {
	db := open(t)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			defer func() {
				if p := recover(); (p != nil) != (i%7 == 3) {
					t.Errorf("update %d: panic %v", i, p)
				}
			}()
			key := fmt.Sprint(i)
			err := db.Update(func(tx *Tx) error {
				if err := tx.Bucket("b").Put(key, []byte(key)); err != nil {
					return err
				}
				if i%7 == 3 {
					panic("mine")
				}
				if i%5 == 0 {
					return fmt.Errorf("no %d", i)
				}
				return nil
			})
			if want := i%5 == 0; (err != nil) != want {
				t.Errorf("update %d: err %v", i, err)
			}
		})
	}
	wg.Wait()
	for i := range 200 {
		want := fmt.Sprint(i)
		if i%7 == 3 || i%5 == 0 {
			want = ""
		}
		if got := get(t, db, fmt.Sprint(i)); got != want {
			t.Errorf("key %d = %q, want %q", i, got, want)
		}
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	if path := os.Getenv("KV_TEST_OPEN"); path != "" {
		if _, err := Open(path, Options{}); !errors.Is(err, ErrLocked) {
			t.Fatalf("open: %v, want ErrLocked", err)
		}
		return
	}
	db := open(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestSecondProcessIsRefused$")
	cmd.Env = append(os.Environ(), "KV_TEST_OPEN="+db.bolt.Path())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestKilledProcessLosesNothing kills a child in the middle of a stream of
// updates; every one that it reported must be there.
func TestKilledProcessLosesNothing(t *testing.T) {
	if path := os.Getenv("KV_TEST_WRITE"); path != "" {
		db, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; ; i++ {
			if err := put(db, fmt.Sprint(i), "x"); err != nil {
				t.Fatal(err)
			}
			fmt.Println(i)
		}
	}
	path := filepath.Join(t.TempDir(), "x.db")
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledProcessLosesNothing$")
	cmd.Env = append(os.Environ(), "KV_TEST_WRITE="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last := -1
	for last < 50 {
		if _, err := fmt.Fscanln(out, &last); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for i := range last + 1 {
		if get(t, db, fmt.Sprint(i)) != "x" {
			t.Fatalf("update %d was reported and is lost", i)
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	value := make([]byte, 600)
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			db := open(b)
			var wg sync.WaitGroup
			next := make(chan int)
			for range callers {
				wg.Go(func() {
					for i := range next {
						if err := db.Update(func(tx *Tx) error { return tx.Bucket("b").Put(fmt.Sprintf("%08d", i), value) }); err != nil {
							b.Error(err)
						}
					}
				})
			}
			b.ResetTimer()
			for i := range b.N {
				next <- i
			}
			close(next)
			wg.Wait()
		})
	}
}
