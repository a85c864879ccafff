// Package kubernetes stands in for the part of Pulumi's SDK for Go that the provider uses.
//
// The provider needs the SDK for its component resources alone (ConfigGroup, Directory, and Chart
// of helm.sh/v4), which slicewright does not use. For them the SDK has every kind of every version
// of Kubernetes' API: 25 MB of Go, which take most of the time of the build.
package kubernetes

import "reflect"

// UntypedArgs are the properties of an object whose kind is not known when this is compiled.
type UntypedArgs map[string]any

func (UntypedArgs) ElementType() reflect.Type { return reflect.TypeFor[UntypedArgs]() }
