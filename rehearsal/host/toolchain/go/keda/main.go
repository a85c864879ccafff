// KEDA's server of the API external.metrics.k8s.io, with a main of our own: KEDA's also serves
// /metrics, on all addresses of its machine, and has no flag for another. Flags are KEDA's.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	basecmd "sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	"github.com/kedacore/keda/v2/pkg/metricsservice"
	keda "github.com/kedacore/keda/v2/pkg/provider"
	"github.com/kedacore/keda/v2/pkg/util"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "keda-adapter:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx := ctrl.SetupSignalHandler()
	adapter := &basecmd.AdapterBase{Name: "keda-adapter"}
	flags := adapter.Flags()
	operator := flags.String("metrics-service-address",
		fmt.Sprintf("keda-operator.%s.svc.cluster.local:9666", util.GetPodNamespace()),
		"The address of the GRPC Metrics Service Server.")
	authority := flags.String("metrics-service-grpc-authority", "", "Its authority, if that is another.")
	compressed := flags.Bool("disable-compression", true, "Ask the API server for no compression.")
	// Accepted as KEDA accepts them, and without effect.
	flags.Int("port", 8080, "Unused: /metrics is not served.")
	flags.Int("v", -1, "Unused.")
	flags.Bool("logtostderr", false, "Unused.")
	flags.String("stderrthreshold", "ERROR", "Unused.")
	options := zap.Options{}
	options.BindFlags(flag.CommandLine)
	flags.AddGoFlagSet(flag.CommandLine)
	if err := flags.Parse(os.Args); err != nil {
		return err
	}
	logger := zap.New(zap.UseFlagOptions(&options))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)

	metrics, err := makeProvider(ctx, adapter, *operator, *authority, *compressed)
	if err != nil {
		return err
	}
	adapter.WithExternalMetrics(metrics)
	return adapter.Run(ctx)
}

func makeProvider(
	ctx context.Context, adapter *basecmd.AdapterBase, operator, authority string, uncompressed bool,
) (provider.ExternalMetricsProvider, error) {
	if err := appsv1.SchemeBuilder.AddToScheme(scheme.Scheme); err != nil {
		return nil, err
	}
	if err := kedav1alpha1.SchemeBuilder.AddToScheme(scheme.Scheme); err != nil {
		return nil, err
	}
	namespaces, err := util.GetWatchNamespaces()
	if err != nil {
		return nil, err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	config.DisableCompression = uncompressed
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		Scheme:  scheme.Scheme,
		Cache: cache.Options{
			DefaultNamespaces: namespaces,
			DefaultTransform:  util.CacheObjectTransform,
		},
	})
	if err != nil {
		return nil, err
	}
	logger := ctrl.Log.WithName("keda_metrics_adapter")
	client, err := metricsservice.NewGrpcClient(
		ctx, operator, adapter.SecureServing.ServerCert.CertDirectory, authority, "",
		grpcprom.NewClientMetrics(), false)
	if err != nil {
		return nil, err
	}
	go func() {
		if err := manager.Start(ctx); err != nil {
			logger.Error(err, "the cache has ended")
			os.Exit(1)
		}
	}()
	return keda.NewProvider(ctx, logger, manager.GetClient(), *client), nil
}
