// What a client of sarama does with the security of a cluster; called by test_sarama.py, in sarama's own example
// sasl_scram_client, whose XDGSCRAMClient it uses. Each line of its output is a fact.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/IBM/sarama"
)

type tokens struct{ user string }

func (t tokens) Token() (*sarama.AccessToken, error) {
	encoded := base64.RawURLEncoding
	claims := fmt.Sprintf(`{"sub":"%s","iat":%d,"exp":%d}`, t.user, time.Now().Unix(), time.Now().Unix()+300)
	token := encoded.EncodeToString([]byte(`{"alg":"none"}`)) + "." + encoded.EncodeToString([]byte(claims)) + "."
	return &sarama.AccessToken{Token: token, Extensions: map[string]string{"traceId": "1"}}, nil
}

func config(protocol, mechanism, user, password, ca string) *sarama.Config {
	found := sarama.NewConfig()
	found.Version = sarama.MaxVersion
	found.ApiVersionsRequest = true
	found.Producer.Return.Successes = true
	found.Metadata.Retry.Max = 1
	if protocol == "SSL" || protocol == "SASL_SSL" {
		pem, err := os.ReadFile(ca)
		must(err)
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		found.Net.TLS.Enable = true
		found.Net.TLS.Config = &tls.Config{RootCAs: pool}
	}
	if mechanism != "" {
		sasl := &found.Net.SASL
		sasl.Enable, sasl.Mechanism, sasl.User, sasl.Password = true, sarama.SASLMechanism(mechanism), user, password
		sasl.TokenProvider = tokens{user}
		if mechanism == "SCRAM-SHA-256" {
			sasl.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &XDGSCRAMClient{HashGeneratorFcn: SHA256} }
		} else {
			sasl.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &XDGSCRAMClient{HashGeneratorFcn: SHA512} }
		}
	}
	return found
}

func must(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// SASL: produce and consume a record.
func records(brokers []string, with *sarama.Config, topic string) {
	producer, err := sarama.NewSyncProducer(brokers, with)
	must(err)
	partition, offset, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("x")})
	must(err)
	must(producer.Close())
	consumer, err := sarama.NewConsumer(brokers, with)
	must(err)
	from, err := consumer.ConsumePartition(topic, partition, offset)
	must(err)
	fmt.Printf("consumed %s\n", (<-from.Messages()).Value)
	must(consumer.Close())
}

// ACLs and users of SCRAM, by the admin client.
func admin(brokers []string, with *sarama.Config, topic string) {
	client, err := sarama.NewClusterAdmin(brokers, with)
	must(err)
	for _, pattern := range []sarama.AclResourcePatternType{sarama.AclPatternLiteral, sarama.AclPatternPrefixed} {
		resource := sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: topic, ResourcePatternType: pattern}
		acl := sarama.Acl{
			Principal: "User:bob", Host: "*", Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow,
		}
		must(client.CreateACL(resource, acl))
	}
	filter := sarama.AclFilter{
		ResourceType: sarama.AclResourceTopic, ResourceName: &topic, ResourcePatternTypeFilter: sarama.AclPatternMatch,
		Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny,
	}
	listed, err := client.ListAcls(filter)
	must(err)
	for _, found := range listed {
		for _, acl := range found.Acls {
			fmt.Printf("entry %s %s %s\n", found.ResourcePatternType.String(), acl.Principal, acl.Operation.String())
		}
	}
	deleted, err := client.DeleteACL(filter, false)
	must(err)
	fmt.Printf("deleted %d\n", len(deleted))
	results, err := client.UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{{
		Name: "carol", Mechanism: sarama.SCRAM_MECHANISM_SHA_512, Iterations: 4096, Salt: []byte("salt"), Password: []byte("p"),
	}})
	must(err)
	fmt.Printf("user %s %v\n", results[0].User, results[0].ErrorCode)
	told, err := client.DescribeUserScramCredentials([]string{"carol", "nobody"})
	must(err)
	for _, user := range told {
		fmt.Printf("credentials of %s: %d %v\n", user.User, len(user.CredentialInfos), user.ErrorCode)
	}
	must(client.Close())
}

func main() {
	log.SetOutput(os.Stderr)
	broker, protocol, mechanism, user, password, ca := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]
	with := config(protocol, mechanism, user, password, ca)
	records([]string{broker}, with, "t")
	admin([]string{broker}, with, "t")
}
