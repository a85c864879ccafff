package main

import (
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// wholeGPU is the GPU instance id of an event that concerns a GPU as a whole, and of a device that
// is not partitioned.
const wholeGPU = 0xFFFFFFFF

const migMinors = "/proc/driver/nvidia-caps/mig-minors"

// device is what the kubelet hands out: a GPU, a MIG partition, or one client's share of either.
type device struct {
	id           string
	gpu          int
	gpuInstance  uint32
	memoryMiB    uint64
	healthy      bool
	sharesDevice bool
}

// discover lists the node's devices, having compared the number of partitions with the wanted size.
func discover(gpus []nvml.Device, config gpuConfig, wrong *fault) ([]device, error) {
	wanted, name := sizes[config.GPUPartitionSize], config.GPUPartitionSize
	if name != "" && (wanted.perGPU == 0 || notServed[name]) {
		return nil, fmt.Errorf("%s is not a valid GPU partition size", name)
	}
	sharing := config.GPUSharingConfig
	if !slices.Contains([]string{"", timeSharing, mps}, sharing.GPUSharingStrategy) {
		return nil, fmt.Errorf(
			"invalid GPU sharing strategy: %s, should be one of time-sharing or mps",
			sharing.GPUSharingStrategy)
	}
	var all []device
	for i, gpu := range gpus {
		memory, ret := gpu.GetMemoryInfo()
		if ret != nvml.SUCCESS {
			return nil, fmt.Errorf("failed to query the memory of GPU %d: %v", i, ret)
		}
		if name == "" {
			all = append(all, device{
				id: fmt.Sprintf("nvidia%d", i), gpu: i, gpuInstance: wholeGPU,
				memoryMiB: memory.Total >> 20, healthy: true,
			})
			continue
		}
		found, err := instances(gpu)
		if err != nil {
			return nil, err
		}
		expected := wanted.perGPU
		if wrong != nil && wrong.gpu == i {
			expected = wrong.size.perGPU
		}
		if len(found) != expected {
			return nil, fmt.Errorf(
				"Number of partitions (%d) for GPU %d does not match "+
					"expected partition count (%d): Not all GPUs are partitioned as expected",
				len(found), i, expected)
		}
		sort.Slice(found, func(a, b int) bool { return found[a].id < found[b].id })
		for _, one := range found {
			all = append(all, device{
				id: fmt.Sprintf("nvidia%d/gi%d", i, one.id), gpu: i, gpuInstance: one.id,
				memoryMiB: memory.Total >> 20, healthy: true,
			})
		}
	}
	return shared(all, sharing.MaxSharedClientsPerGPU, sharing.GPUSharingStrategy), nil
}

func shared(all []device, clients int, strategy string) []device {
	if strategy == "" || clients < 2 {
		return all
	}
	var shares []device
	for _, one := range all {
		for client := range clients {
			share := one
			share.id, share.sharesDevice = fmt.Sprintf("%s/vgpu%d", one.id, client), true
			shares = append(shares, share)
		}
	}
	return shares
}

// deviceFiles are the device files that a container needs for these devices: a partition's are its
// GPU's and two capabilities. Source: GoogleCloudPlatform/container-engine-accelerators,
// pkg/gpu/nvidia/mig/mig.go, whose partitions have one compute instance.
func deviceFiles(of []device) ([]string, error) {
	files := []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}
	for _, one := range of {
		needed := []string{fmt.Sprintf("/dev/nvidia%d", one.gpu)}
		if one.gpuInstance != wholeGPU {
			instance := fmt.Sprintf("gpu%d/gi%d", one.gpu, one.gpuInstance)
			capabilities, err := capabilityFiles(instance+"/access", instance+"/ci0/access")
			if err != nil {
				return nil, err
			}
			needed = append(needed, capabilities...)
		}
		for _, file := range needed {
			if !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	return files, nil
}

// capabilityFiles are the device files of capabilities, by the driver's own list of their minors.
func capabilityFiles(names ...string) ([]string, error) {
	list, err := os.ReadFile(migMinors)
	if err != nil {
		return nil, err
	}
	minors := map[string]string{}
	for _, line := range strings.Split(string(list), "\n") {
		if name, minor, found := strings.Cut(line, " "); found {
			minors[name] = minor
		}
	}
	var files []string
	for _, name := range names {
		minor, known := minors[name]
		if !known {
			return nil, fmt.Errorf("%s does not list %s", migMinors, name)
		}
		files = append(files, "/dev/nvidia-caps/nvidia-cap"+minor)
	}
	return files, nil
}

// physical is a device's id without the client's share.
func physical(id string) string {
	before, _, _ := strings.Cut(id, "/vgpu")
	return before
}
