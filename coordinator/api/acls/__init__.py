"""DescribeAcls, CreateAcls and DeleteAcls: clients read and change access control entries (KIP-140, KIP-290)."""
