// Command protogen makes Go stubs from the protobuf block of a specification
// text, with no system protoc: the compiler is a Go library and the two
// plugins are Go tools of this module.
//
//	go tool protogen -spec spec/cosi-v1alpha1.md -proto cosi.proto -import github.com/… -out cosi/cosipb
//
// The block is compiled exactly as the specification prints it. The flag
// -package renames the protobuf package (two specifications share one name,
// and one process can hold only one of them); -drop-options leaves out the
// custom options, whose extension numbers would clash in the same way.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

type job struct {
	spec, proto, importPath, out, pkg string
	dropOptions, services             bool
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("protogen: ")
	var j job
	flag.StringVar(&j.spec, "spec", "", "specification text that holds the protobuf block")
	flag.StringVar(&j.proto, "proto", "", "name to give the protobuf file")
	flag.StringVar(&j.importPath, "import", "", "Go import path of the stubs")
	flag.StringVar(&j.out, "out", "", "directory to write to")
	flag.StringVar(&j.pkg, "package", "", "protobuf package to use in place of the specification's")
	flag.BoolVar(&j.dropOptions, "drop-options", false, "leave out the custom options")
	flag.BoolVar(&j.services, "services", true, "make service stubs too")
	flag.Parse()
	if err := j.run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func (j job) run(ctx context.Context) error {
	text, err := os.ReadFile(j.spec)
	if err != nil {
		return err
	}
	block, err := firstProtoBlock(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", j.spec, err)
	}
	if j.pkg != "" {
		block = packageLine.ReplaceAllString(block, "package "+j.pkg+";")
	}
	if j.dropOptions {
		block = extendBlock.ReplaceAllString(block, "")
	}
	req, err := j.request(ctx, block)
	if err != nil {
		return err
	}
	if err := j.plugin(ctx, "protoc-gen-go", req); err != nil || !j.services {
		return err
	}
	return j.plugin(ctx, "protoc-gen-go-grpc", req)
}

var (
	packageLine = regexp.MustCompile(`(?m)^package .*;$`)
	extendBlock = regexp.MustCompile(`(?ms)^extend .*?^}\n`)
)

// firstProtoBlock is the first fenced block marked protobuf. Later blocks in
// the texts repeat single messages, partly with other fields; the first one
// wins (COSI-050, DRAFT-018).
func firstProtoBlock(text string) (string, error) {
	_, rest, ok := strings.Cut(text, "```protobuf\n")
	if !ok {
		return "", errors.New("no ```protobuf block")
	}
	block, _, ok := strings.Cut(rest, "```")
	if !ok {
		return "", errors.New("unterminated ```protobuf block")
	}
	return block, nil
}

// request compiles the block and describes it, and what it imports, the way
// protoc describes files to its plugins.
func (j job) request(ctx context.Context, block string) (*pluginpb.CodeGeneratorRequest, error) {
	c := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			Accessor: protocompile.SourceAccessorFromMap(map[string]string{j.proto: block}),
		}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(ctx, j.proto)
	if err != nil {
		return nil, err
	}
	file := files[0]
	var all []*descriptorpb.FileDescriptorProto
	for i := range file.Imports().Len() {
		all = append(all, protodesc.ToFileDescriptorProto(file.Imports().Get(i).FileDescriptor))
	}
	all = append(all, protodesc.ToFileDescriptorProto(file))
	return &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{j.proto},
		Parameter:      proto.String("paths=source_relative,M" + j.proto + "=" + j.importPath + ";" + path.Base(j.importPath)),
		ProtoFile:      all,
	}, nil
}

func (j job) plugin(ctx context.Context, name string, req *pluginpb.CodeGeneratorRequest) error {
	in, err := proto.Marshal(req)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", name)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var resp pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &resp); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if resp.Error != nil {
		return fmt.Errorf("%s: %s", name, resp.GetError())
	}
	for _, f := range resp.File {
		if err := os.WriteFile(filepath.Join(j.out, f.GetName()), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
