// Prints what go-nvml's mock GPUs say about MIG, as JSON: product name -> PCI id, memory, profiles
// by NVML enum with their placements. Only dgxa100 exists in the versions of go-nvml that the
// module registry serves; a test watches for more.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
)

type profile struct {
	Info             nvml.GpuInstanceProfileInfo
	Placements       []nvml.GpuInstancePlacement
	ComputeInstances map[uint32]uint32 // compute slices -> how many fill the instance
}

type gpu struct {
	PciDeviceID uint32
	MemoryMiB   uint64
	Profiles    map[int]profile
}

func must[T any](value T, ret nvml.Return) T {
	if ret != nvml.SUCCESS {
		log.Fatalf("NVML mock: %v", ret)
	}
	return value
}

func main() {
	gpus := map[string]gpu{}
	for _, server := range []nvml.Interface{dgxa100.New()} {
		device := must(server.DeviceGetHandleByIndex(0))
		if _, ret := device.SetMigMode(nvml.DEVICE_MIG_ENABLE); ret != nvml.SUCCESS {
			log.Fatalf("NVML mock: %v", ret)
		}
		found := gpu{
			must(device.GetPciInfo()).PciDeviceId,
			must(device.GetMemoryInfo()).Total >> 20,
			map[int]profile{},
		}
		for id := range nvml.GPU_INSTANCE_PROFILE_COUNT {
			info, ret := device.GetGpuInstanceProfileInfo(id)
			if ret != nvml.SUCCESS {
				continue
			}
			instance := must(device.CreateGpuInstance(&info))
			parts := map[uint32]uint32{}
			for part := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
				compute, ret := instance.GetComputeInstanceProfileInfo(part, 0)
				if ret == nvml.SUCCESS {
					parts[compute.SliceCount] = compute.InstanceCount
				}
			}
			placements := must(device.GetGpuInstancePossiblePlacements(&info))
			found.Profiles[id] = profile{info, placements, parts}
		}
		gpus[must(device.GetName())] = found
	}
	if err := json.NewEncoder(os.Stdout).Encode(gpus); err != nil {
		log.Fatal(err)
	}
}
