// Command s3 is an unmodified S3 program for the tests: it knows of its bucket
// only what the AWS SDK finds by itself (AWS_SHARED_CREDENTIALS_FILE,
// AWS_CONFIG_FILE) and the name in BUCKET_NAME. Static, it is the only file of
// a container's root.
//
//	s3 put KEY TEXT | get KEY | list     one command
//	s3                                   commands from stdin, an answer each
//
// An answer is one line: "ok TEXT", or "error CODE".
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
)

func main() {
	if len(os.Args) > 1 {
		if !answer(os.Args[1:]) {
			os.Exit(1)
		}
		return
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer(strings.Fields(lines.Text()))
	}
}

func answer(args []string) (ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	text, err := do(ctx, args)
	var api smithy.APIError
	switch {
	case errors.As(err, &api):
		fmt.Println("error", api.ErrorCode())
	case err != nil:
		fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
	default:
		fmt.Println("ok", text)
	}
	return err == nil
}

// do reads the configuration anew each time, as a program that is told of a
// rotation does.
func do(ctx context.Context, args []string) (string, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }))
	if err != nil {
		return "", err
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })
	bucket := aws.String(os.Getenv("BUCKET_NAME"))
	switch {
	case len(args) == 3 && args[0] == "put":
		_, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: &args[1], Body: strings.NewReader(args[2])})
		return "stored", err
	case len(args) == 2 && args[0] == "get":
		out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: &args[1]})
		if err != nil {
			return "", err
		}
		body, err := io.ReadAll(out.Body)
		return string(body), errors.Join(err, out.Body.Close())
	case len(args) == 1 && args[0] == "list":
		out, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: bucket})
		if err != nil {
			return "", err
		}
		var keys []string
		for _, o := range out.Contents {
			keys = append(keys, *o.Key)
		}
		return strings.Join(keys, " "), nil
	}
	return "", fmt.Errorf("usage: put KEY TEXT | get KEY | list")
}
