"""Networks (torch), their training, and the policies that ship."""
