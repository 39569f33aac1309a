"""What Kubernetes stores: Request, Run and Candidate as models, and all that is derived from them. Pure."""
