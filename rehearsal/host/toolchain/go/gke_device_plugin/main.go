// gke-gpu-device-plugin stands for what GKE runs on its GPU nodes: the partitioner, which cuts
// every GPU of the node into instances of one size, and the device plugin, which offers them to the
// kubelet as nvidia.com/gpu. It behaves as the public sources of both do
// (GoogleCloudPlatform/container-engine-accelerators), their known gaps included; it talks to the
// GPUs through NVML only.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const (
	configFile       = "/etc/nvidia/gpu_config.json"
	pluginDirectory  = "/var/lib/kubelet/device-plugins"
	driverVersion    = "/proc/driver/nvidia/version"
	driverRetry      = time.Second
	timeSharing, mps = "time-sharing", "mps"
)

// gpuConfig is the node's file as GKE writes it.
type gpuConfig struct {
	GPUPartitionSize           string
	MaxTimeSharedClientsPerGPU int
	GPUSharingConfig           struct {
		GPUSharingStrategy     string
		MaxSharedClientsPerGPU int
	}
}

var errReboot = errors.New("cannot go on before the node has rebooted")

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Print(err)
		os.Exit(1)
	}
}

func run() error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	config := readConfig()
	if !driverReady(stop) {
		return nil
	}
	defer nvml.Shutdown()
	gpus, err := allGPUs()
	if err != nil {
		return err
	}
	fault, err := injectedFault()
	if err != nil {
		return err
	}
	if err := partition(gpus, config.GPUPartitionSize, fault); err != nil {
		return err
	}
	devices, err := discover(gpus, config, fault)
	if err != nil {
		return err
	}
	plugin := newPlugin(config, devices)
	go plugin.watchHealth(gpus)
	return plugin.serve(pluginDirectory, stop)
}

// readConfig ignores a file that it cannot read, as GKE's does: the node stays unpartitioned.
func readConfig() gpuConfig {
	var config gpuConfig
	text, err := os.ReadFile(configFile)
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err != nil {
		log.Printf(
			"failed to read GPU config file %s, falling back to default: %v", configFile, err)
		return gpuConfig{}
	}
	if config.MaxTimeSharedClientsPerGPU > 0 && config.GPUSharingConfig.GPUSharingStrategy == "" {
		config.GPUSharingConfig.GPUSharingStrategy = timeSharing
		config.GPUSharingConfig.MaxSharedClientsPerGPU = config.MaxTimeSharedClientsPerGPU
	}
	return config
}

// driverReady waits for the driver, which another DaemonSet installs; false when told to stop while
// waiting.
func driverReady(stop <-chan os.Signal) bool {
	for logged := false; ; logged = true {
		ret := nvml.ERROR_DRIVER_NOT_LOADED
		if _, err := os.Stat(driverVersion); err == nil {
			if logged {
				restart()
			}
			ret = nvml.Init()
		}
		if ret == nvml.SUCCESS {
			return true
		}
		if !logged {
			log.Printf("failed to initialize nvml, waiting for the driver: %v", describe(ret))
		}
		select {
		case <-stop:
			return false
		case <-time.After(driverRetry):
		}
	}
}

// restart replaces this process by one of the same program: glibc remembers from the start of a
// process which directories of LD_LIBRARY_PATH do not exist, as the driver's does not before it is
// installed. It returns only where that fails.
func restart() {
	log.Printf("cannot restart: %v", syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
}

// describe does not ask the library for words: it may be the library that is missing.
func describe(ret nvml.Return) string {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return "no libnvidia-ml.so.1"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return "driver not loaded"
	}
	return fmt.Sprintf("NVML error %d", int(ret))
}

func allGPUs() ([]nvml.Device, error) {
	count, ret := nvml.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("failed to get device count: %v", ret)
	}
	gpus := make([]nvml.Device, count)
	for i := range gpus {
		if gpus[i], ret = nvml.DeviceGetHandleByIndex(i); ret != nvml.SUCCESS {
			return nil, fmt.Errorf("failed to get device %d: %v", i, ret)
		}
	}
	return gpus, nil
}
