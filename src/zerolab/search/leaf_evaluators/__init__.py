"""One file per leaf evaluator; every module here is imported and registers itself."""
