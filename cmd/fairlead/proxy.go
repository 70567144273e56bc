package main

import (
	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/internal/plugin"
	"github.com/fairlead/fairlead/internal/proxy"
)

func newProxy() *cobra.Command {
	c := proxy.Config{}
	cmd := &cobra.Command{
		Use:                   "proxy --listen ADDRESS --forward ADDRESS --cert FILE --key FILE --ca FILE",
		DisableFlagsInUseLine: true,
		Short:                 "Carry a driver's socket over the network, by mutual TLS",
		Long: `Carry a driver's endpoint over an IP network, in both directions secured by
mutual TLS 1.3. It runs at both ends: beside the driver it listens on tcp:// and
forwards to the driver's socket; beside the caller it listens on a socket and
forwards to tcp://. Certificates are read again when they change. The exit status
is one of sysexits(3).`,
		Example: `  fairlead proxy --listen tcp://0.0.0.0:7443 --forward unix:///run/vendor/cosi.sock --cert far.crt --key far.key --ca ca.crt
  fairlead proxy --listen unix:///run/near/cosi.sock --forward tcp://far.example.com:7443 --cert near.crt --key near.key --ca ca.crt`,
		Args: args(0, 0, "nothing but flags"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"listen", "forward", "cert", "key", "ca"} {
				if !cmd.Flags().Changed(name) {
					return usage(cmd, "proxy needs --%s", name)
				}
			}
			log, err := plugin.Logger()
			if err == nil {
				c.Log = log
				err = proxy.Run(cmd.Context(), c)
			}
			if err != nil {
				return &statusError{cosi.ExitCode(err), err}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Listen, "listen", "", "where to listen: unix:///PATH.sock or tcp://HOST:PORT")
	f.StringVar(&c.Forward, "forward", "", "where to forward to; the other of the two")
	f.StringVar(&c.Cert, "cert", "", "certificate of this end with its chain, a PEM file")
	f.StringVar(&c.Key, "key", "", "the certificate's key, a PEM file")
	f.StringVar(&c.CA, "ca", "", "authorities of the other end's certificate, a PEM file")
	f.StringVar(&c.PeerName, "peer-name", "", "name that the other end's certificate must be for")
	return cmd
}
