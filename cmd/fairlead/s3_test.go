package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/fairlead/fairlead/cosi"
)

// s3Main is a real S3 client for the scripts, told of its bucket as any other
// program is: s3 put KEY TEXT, s3 get KEY, s3 list. With S3_KEY and S3_SECRET it
// uses that key instead. It prints the S3 error code and exits 1 when refused.
func s3Main() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	text, err := s3Do(ctx, os.Args[1:])
	if err != nil {
		var api smithy.APIError
		if errors.As(err, &api) {
			fmt.Fprintln(os.Stderr, api.ErrorCode())
		} else {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	fmt.Println(text)
}

func s3Do(ctx context.Context, args []string) (string, error) {
	text, err := os.ReadFile(os.Getenv("FAIRLEAD_BUCKET_INFO"))
	if err != nil {
		return "", err
	}
	var info cosi.BucketInfo
	if err := json.Unmarshal(text, &info); err != nil {
		return "", err
	}
	s := info.Spec.SecretS3
	key, secret := or(os.Getenv("S3_KEY"), s.AccessKeyID), or(os.Getenv("S3_SECRET"), s.AccessSecretKey)
	client := s3.New(s3.Options{
		Region: s.Region, BaseEndpoint: aws.String(s.Endpoint), UsePathStyle: true,
		Credentials:      credentials.NewStaticCredentialsProvider(key, secret, ""),
		RetryMaxAttempts: 1,
	})
	bucket := aws.String(info.Spec.BucketName)
	switch args[0] {
	case "put":
		_, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: &args[1], Body: strings.NewReader(args[2])})
		return "stored", err
	case "get":
		out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: &args[1]})
		if err != nil {
			return "", err
		}
		body, err := io.ReadAll(out.Body)
		return string(body), errors.Join(err, out.Body.Close())
	case "list":
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
	return "", fmt.Errorf("unknown verb %q", args[0])
}
