// Package v2 refuses the component resources that make objects from YAML: see package kubernetes.
package v2

import (
	"fmt"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// RegisterResource would make one object of a component resource.
func RegisterResource(_ *pulumi.Context, apiVersion, kind, name string, _ pulumi.Input,
	_ ...pulumi.ResourceOption) (pulumi.CustomResource, error) {
	return nil, fmt.Errorf("%s %s %s: this build of the provider has no component resources",
		apiVersion, kind, name)
}
