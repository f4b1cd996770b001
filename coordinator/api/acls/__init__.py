"""DescribeAcls, CreateAcls, DeleteAcls: who may do what, told and changed (KIP-140, KIP-290)."""
