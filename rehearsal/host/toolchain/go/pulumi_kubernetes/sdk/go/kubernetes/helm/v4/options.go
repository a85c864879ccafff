// Package v4 has the settings of Chart of helm.sh/v4, by the names that the provider's code uses.
package v4

import "github.com/pulumi/pulumi/sdk/v3/go/pulumi"

// RepositoryOpts say where a chart is, and how to get it from there.
type RepositoryOpts struct {
	CaFile   pulumi.AssetOrArchive `pulumi:"caFile"`
	CertFile pulumi.AssetOrArchive `pulumi:"certFile"`
	KeyFile  pulumi.AssetOrArchive `pulumi:"keyFile"`
	Password *string               `pulumi:"password"`
	Repo     *string               `pulumi:"repo"`
	Username *string               `pulumi:"username"`
}

// RepositoryOptsInput is what a program gives for RepositoryOpts.
type RepositoryOptsInput interface{ pulumi.Input }

// PostRenderer is a program that changes the manifests of a chart.
type PostRenderer struct {
	Args    []string `pulumi:"args"`
	Command string   `pulumi:"command"`
}

// PostRendererInput is what a program gives for PostRenderer.
type PostRendererInput interface{ pulumi.Input }
