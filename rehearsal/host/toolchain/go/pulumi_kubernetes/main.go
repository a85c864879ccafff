// Pulumi's own kubernetes provider, as its cmd/pulumi-resource-kubernetes starts it.
//
// That package embeds two files which a release's build writes, and which its Go module lacks. The
// module has what they are made from: the schema without a version, and the mapping. The toolchain
// lays those beside this file for the build.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

//go:embed schema.json
var schema []byte

//go:embed terraform-mapping.json
var mapping []byte

func main() {
	provider.Serve("kubernetes", version.Version, schema, mapping)
}
