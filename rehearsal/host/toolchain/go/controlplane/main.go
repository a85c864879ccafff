// Command slicewright-controlplane holds etcd and the Kubernetes control plane in one file on disk.
//
// The first argument chooses the part, the rest are that part's own flags. They are separate processes of one binary, not one
// process: the signal set-up of each panics when called twice, and only a real process can be killed like a real process.
package main

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	parts := map[string]func() *cobra.Command{
		"kube-apiserver":          func() *cobra.Command { return apiserver.NewAPIServerCommand() },
		"kube-controller-manager": func() *cobra.Command { return controllermanager.NewControllerManagerCommand() },
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubectl":                 func() *cobra.Command { return kubectl.NewDefaultKubectlCommand() },
	}
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: slicewright-controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubectl [flags]")
		os.Exit(2)
	}
	part := os.Args[1]
	os.Args = append([]string{part}, os.Args[2:]...)
	go raiseMemoryLimit()
	if part == "etcd" {
		if err := runEtcd(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "etcd:", err)
			os.Exit(1)
		}
		return
	}
	build, known := parts[part]
	if !known {
		fmt.Fprintf(os.Stderr, "slicewright-controlplane: no part %q\n", part)
		os.Exit(2)
	}
	os.Exit(cli.Run(build()))
}

// runEtcd serves a throw-away etcd on loopback until SIGINT or SIGTERM. The data need not survive a power cut, so fsync is off.
func runEtcd(args []string) error {
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	dataDir := flags.String("data-dir", "", "directory of the database")
	client := flags.String("listen-client-url", "", "URL for clients, for example http://127.0.0.1:2379")
	peer := flags.String("listen-peer-url", "", "URL for peers, for example http://127.0.0.1:2380")
	caFile := flags.String("trusted-ca-file", "", "certificate authority that client certificates must come from")
	certFile := flags.String("cert-file", "", "server certificate")
	keyFile := flags.String("key-file", "", "server key")
	if err := flags.Parse(args); err != nil {
		return err
	}
	clientURL, err := url.Parse(*client)
	if err != nil {
		return err
	}
	peerURL, err := url.Parse(*peer)
	if err != nil {
		return err
	}
	config := embed.NewConfig()
	config.Dir = *dataDir
	config.ListenClientUrls = []url.URL{*clientURL}
	config.AdvertiseClientUrls = []url.URL{*clientURL}
	config.ListenPeerUrls = []url.URL{*peerURL}
	config.AdvertisePeerUrls = []url.URL{*peerURL}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.UnsafeNoFsync = true
	config.LogLevel = "warn"
	config.QuotaBackendBytes = 2 << 30
	config.AutoCompactionMode = "periodic"
	config.AutoCompactionRetention = "10m"
	config.ClientTLSInfo.TrustedCAFile = *caFile
	config.ClientTLSInfo.CertFile = *certFile
	config.ClientTLSInfo.KeyFile = *keyFile
	config.ClientTLSInfo.ClientCertAuth = *caFile != ""
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	select {
	case <-server.Server.ReadyNotify():
		fmt.Println("etcd ready on", *client)
	case <-time.After(30 * time.Second):
		return fmt.Errorf("not ready after 30 s")
	case <-stop:
		return nil
	}
	select {
	case <-stop:
		return nil
	case err := <-server.Err():
		return err
	}
}
