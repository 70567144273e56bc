package objectstore

import (
	"errors"
	"time"

	"github.com/versity/versitygw/auth"
)

// iam is the gateway's view of the accounts. It is asked at every request and
// answers from the store, so that what was revoked or has expired fails at
// once, presigned URLs included.
type iam struct{ s *Store }

var errNoAdmin = errors.New("accounts are made by grants only")

// GetUserAccount returns the account that signs with this access key.
func (i iam) GetUserAccount(access string) (auth.Account, error) {
	a := i.s.accountByID(access)
	if a == nil || a.expired(time.Now()) {
		return auth.Account{}, auth.ErrNoSuchUser
	}
	secret, err := i.s.secret(a)
	if err != nil {
		i.s.log.Error("answer a request", "account", access, "error", err)
		return auth.Account{}, err
	}
	return auth.Account{Access: access, Secret: secret, Role: auth.RoleUser}, nil
}

func (s *Store) accountByID(id string) *accountRecord {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.accounts[id]
}

// ResolveAccounts returns those of the keys that no account has.
func (i iam) ResolveAccounts(access []string) (missing []string, err error) {
	for _, a := range access {
		if i.s.accountByID(a) == nil {
			missing = append(missing, a)
		}
	}
	return missing, nil
}

// The rest is the gateway's admin interface, which is not served.

func (iam) CreateAccount(auth.Account) error                  { return errNoAdmin }
func (iam) UpdateUserAccount(string, auth.MutableProps) error { return errNoAdmin }
func (iam) DeleteUserAccount(string) error                    { return errNoAdmin }
func (iam) ListUserAccounts() ([]auth.Account, error)         { return nil, errNoAdmin }
func (iam) Shutdown() error                                   { return nil }
